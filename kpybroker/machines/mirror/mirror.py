"""A mirror: a name, and the patterns of the source's topics that it has here."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from kpybroker.machines.metadata.topic_name import INTERNAL, NEVER_TIERED

ANY: Final = "*"
ACLS: Final = "acls"
QUOTAS: Final = "quotas"
EXTRAS: Final = (ACLS, QUOTAS)
"""The things that a mirror may carry over beside topics and groups."""
NEVER_MIRRORED: Final = INTERNAL | NEVER_TIERED | {"__kpybroker_mirrors"}


class Mirror:
    """One mirror of this cluster."""

    def __init__(self, name: str, patterns: Iterable[str], carries: Iterable[str] = ()) -> None:
        """``carries``: what is carried over beside topics and groups, of `EXTRAS`."""
        self.name = name
        self.patterns = tuple(patterns)
        self.carries = tuple(each for each in EXTRAS if each in set(carries))

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        wanted = (ANY_OF_NAME.join(map(re.escape, pattern.split(ANY))) for pattern in self.patterns)
        return re.compile("|".join(wanted))

    def takes(self, topic: str) -> bool:
        """Whether a topic of the source is mirrored. Those that Kafka keeps for itself never are."""
        return topic not in NEVER_MIRRORED and self._expression.fullmatch(topic) is not None

    def takes_all(self, prefix: str) -> bool:
        """Whether all topics are mirrored whose names have a prefix, but for Kafka's own."""
        heads = [pattern.removesuffix(ANY) for pattern in self.patterns if pattern.endswith(ANY)]
        return any(ANY not in head and prefix.startswith(head) for head in heads)

    def __str__(self) -> str:
        """The entry in ``kpybroker.mirrors``."""
        carries = f":{'|'.join(self.carries)}" if self.carries else ""
        return f"{self.name}:{'|'.join(self.patterns)}{carries}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mirror) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


ANY_OF_NAME: Final = ".*"


def mirrors_of(entries: Iterable[str]) -> dict[str, Mirror]:
    """The mirrors that ``kpybroker.mirrors`` names, by their names."""
    found = {}
    for entry in entries:
        name, _, rest = entry.strip().partition(":")
        patterns, _, carries = rest.partition(":")
        if name:
            found[name] = Mirror(name, patterns.split("|"), carries.split("|"))
    return found
