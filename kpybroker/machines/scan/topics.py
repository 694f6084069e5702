"""The topics and partitions of a scan, as the options ``subscribe``, ``subscribePattern`` and ``assign`` name them.
Pure."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from kpybroker.machines import java_patterns
from kpybroker.machines.scan.errors import BadOption


class Subscribed(NamedTuple):
    """All partitions of these topics."""

    names: tuple[str, ...]


class Matching(NamedTuple):
    """All partitions of the topics in whose names the pattern is found, without Kafka's own topics."""

    pattern: str

    def takes(self, name: str) -> bool:
        return _compiled(self.pattern).search(name) is not None


class Assigned(NamedTuple):
    """These partitions, as far as they are there."""

    partitions: Mapping[str, tuple[int, ...]]


Topics = Subscribed | Matching | Assigned


def matching(pattern: str) -> Matching:
    """The topics of a pattern. Raises BadOption."""
    try:
        _compiled(pattern)
    except re.error as error:
        raise BadOption(f"subscribePattern {pattern!r} is no regular expression that is known here: {error}") from None
    return Matching(pattern)


@cache
def _compiled(pattern: str) -> Any:
    """The pattern as Java reads it, as far as RE2 has it; else as Python does, with lookaheads. Raises re.error."""
    try:
        return java_patterns.compiled(pattern)
    except java_patterns.Unusable:
        return re.compile(pattern)
