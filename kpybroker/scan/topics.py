"""The topics and partitions of a scan, as the options ``subscribe``, ``subscribePattern`` and ``assign`` name them.
Pure."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kpybroker.scan.errors import BadOption


class Subscribed(NamedTuple):
    """All partitions of these topics."""

    names: tuple[str, ...]


class Matching(NamedTuple):
    """All partitions of the topics whose whole name matches, without Kafka's own topics."""

    pattern: str

    def takes(self, name: str) -> bool:
        return re.fullmatch(self.pattern, name) is not None


class Assigned(NamedTuple):
    """These partitions."""

    partitions: Mapping[str, tuple[int, ...]]


Topics = Subscribed | Matching | Assigned


def matching(pattern: str) -> Matching:
    """The topics of a pattern. Raises BadOption."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadOption(f"subscribePattern {pattern!r} is not a regular expression: {error}") from None
    return Matching(pattern)
