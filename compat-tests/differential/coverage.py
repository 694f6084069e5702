"""The errors that sequences have reached: those that Apache Kafka answered, by API and version. Pure.

``expected/error_paths.txt`` has a line for each API: the errors that the paths in `error_paths` reach, each with its
versions. A path that is lost, or an API that appears without any, fails `test_differential`.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from differential.steps import fields_in
from kpybroker.requests.handlers import served_versions
from kpywire import api, error_codes
from kpywire.schema import Structure

Reached = set[tuple[int, int, int]]
"""(api key, version, error code)."""

NAMES = {code: name for name, code in vars(error_codes).items() if name.isupper() and isinstance(code, int)}


def codes_in(answer: Any) -> Iterator[int]:
    """Every error code that an answer holds, 0 for what went well; 0 too where it has no place for any."""
    found = list(_codes(answer))
    yield from found or [error_codes.NONE]


def _codes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for each in value:
            yield from _codes(each)
    elif isinstance(value, Structure):
        for field in fields_in(value):
            inner = getattr(value, field.name)
            if field.name.endswith("error_code"):
                yield inner
            elif isinstance(inner, (list, Structure)):
                yield from _codes(inner)


def table(reached: Iterable[tuple[int, int, int]]) -> list[str]:
    """A line for each API that is served: each error, and the versions that answered it."""
    by_key: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for key, version, code in reached:
        by_key[key][code].add(version)
    lines = []
    for key in sorted(served_versions(), key=lambda key: api.API_KEYS[key].name):
        found = by_key.get(key, {})
        errors = (f"{NAMES.get(code, str(code))} {_ranges(found[code])}" for code in sorted(found))
        lines.append(f"{api.API_KEYS[key].name}: {', '.join(errors)}")
    return lines


def errors_in(lines: Iterable[str]) -> set[str]:
    """The errors that lines of such a table name. At which versions depends a little on how busy the machine was."""
    return {part.split()[0] for line in lines for part in line.partition(": ")[2].split(", ") if part}


def _ranges(versions: set[int]) -> str:
    """``v0-3,5``."""
    parts: list[list[int]] = []
    for version in sorted(versions):
        if parts and parts[-1][-1] == version - 1:
            parts[-1][1:] = [version]
        else:
            parts.append([version])
    return f"v{'+'.join('-'.join(map(str, part)) for part in parts)}"
