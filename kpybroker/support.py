"""Writes docs/support.md: the APIs and features of Kafka that are served, from the tables that serve them.

``python -m kpybroker.support``. Not read by the broker. A test holds the file against it, and demands that every API of
Kafka is either served or has its reason here.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from kpybroker import kips
from kpybroker.handlers import SERVED, controller_versions, home_of, served_versions
from kpybroker.metadata.features import KNOWN_TO_KAFKA, SUPPORTED
from kpywire.api import API_KEYS, ApiKey


class Gap(NamedTuple):
    """A feature of Kafka that is still missing: its meaning for a user, and the APIs that belong to it."""

    name: str
    means: str
    apis: frozenset[str]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


GAPS = (
    Gap(
        "Share groups",
        "KIP-932: several consumers at one partition, each record acknowledged by itself.",
        _names(
            "ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge "
            "DescribeShareGroupOffsets AlterShareGroupOffsets DeleteShareGroupOffsets"
        ),
    ),
    Gap(
        "Streams groups",
        "KIP-1071's protocol. Kafka Streams works by the classic protocol.",
        frozenset({"StreamsGroupHeartbeat", "StreamsGroupDescribe"}),
    ),
)

WITHOUT_API = (
    ("Tiered storage", "`remote.storage.enable` is refused, as by a Kafka without it; all data is local."),
    ("Old message formats", "Record batches of version 2 only (Kafka 0.11 and later), as in Kafka 4."),
)

_HEAD = """\
# What is supported

Written by `python -m kpybroker.support` from the code; edit `kpybroker/support.py` or the handlers instead.

ApiVersions advertises exactly what is in this table, so clients know it too. The reference is Apache Kafka 4.3.
"""


def gap_of(api: ApiKey) -> Gap:
    """The gap that an API belongs to, which must be closed before the API can be served. Raises LookupError if no gap
    names it."""
    for gap in GAPS:
        if api.name in gap.apis:
            return gap
    raise LookupError(f"{api.name} is neither served nor part of a gap")


def document() -> str:
    """The content of docs/support.md."""
    return "".join([_HEAD, _served(), _gaps(), _features(), _missing(), kips.section()])


def _served() -> str:
    served, on_controller = served_versions(), controller_versions()
    head = "| key | API | versions | of Kafka's | controller listener |\n|---:|---|---|---|---|\n"
    every = {**on_controller, **served}
    lines = [f"\n## APIs served: {len(every)} of {len(API_KEYS)}\n\n", head]
    for key, (first, last) in sorted(every.items()):
        api = API_KEYS[key]
        link = f"[{api.name}](../kpybroker/handlers/{home_of(api.module)}.py)"
        both = "" if key not in on_controller else "too" if key in served else "only"
        lines.append(
            f"| {key} | {link} | {_range(first, last)} | {_range(api.min_version, api.max_version)} | {both} |\n"
        )
    lines.append("\nEach handler's file lists the behaviours it keeps and the KIP of each.\n")
    return "".join(lines)


def _gaps() -> str:
    rows = [f"| {gap.name} | {gap.means} |\n" for gap in GAPS]
    rows += [f"| {name} | {means} |\n" for name, means in WITHOUT_API]
    return "".join(["\n## What is not there yet\n\n| | what it means today |\n|---|---|\n", *rows])


def _features() -> str:
    lines = ["\n## Finalised features\n\nAs in `kafka-features describe`.\n\n| feature | levels here |\n|---|---|\n"]
    lines += [f"| `{name}` | {_range(*levels)} |\n" for name, levels in sorted(SUPPORTED.items())]
    lines += [f"| `{name}` | 0 (off) |\n" for name in sorted(KNOWN_TO_KAFKA.keys() - SUPPORTED.keys())]
    return "".join(lines)


def _missing() -> str:
    lines = ["\n## APIs not served\n\n| key | API | belongs to |\n|---:|---|---|\n"]
    missing = [api for api in API_KEYS.values() if api.module not in SERVED]
    lines += [f"| {api.key} | {api.name} | {gap_of(api).name} |\n" for api in missing]
    return "".join(lines)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def main() -> None:
    """Write the file whose path is the argument, docs/support.md by default."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/support.md")
    path.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
