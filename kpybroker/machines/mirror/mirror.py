"""A mirror: a name, and the patterns of the source's topics that it has here."""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from kpybroker.machines.metadata.topic_name import INTERNAL, NEVER_TIERED

ANY: Final = "*"
NEVER_MIRRORED: Final = INTERNAL | NEVER_TIERED | {"__kpybroker_mirrors"}


class Mirror:
    """One mirror of this cluster."""

    def __init__(self, name: str, patterns: Iterable[str]) -> None:
        self.name = name
        self.patterns = tuple(patterns)

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        wanted = (ANY_OF_NAME.join(map(re.escape, pattern.split(ANY))) for pattern in self.patterns)
        return re.compile("|".join(wanted))

    def takes(self, topic: str) -> bool:
        """Whether a topic of the source is mirrored. Those that Kafka keeps for itself never are."""
        return topic not in NEVER_MIRRORED and self._expression.fullmatch(topic) is not None

    def __str__(self) -> str:
        """The entry in ``kpybroker.mirrors``."""
        return f"{self.name}:{'|'.join(self.patterns)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mirror) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


ANY_OF_NAME: Final = ".*"


def mirrors_of(entries: Iterable[str]) -> dict[str, Mirror]:
    """The mirrors that ``kpybroker.mirrors`` names, by their names."""
    found = {}
    for entry in entries:
        name, _, patterns = entry.strip().partition(":")
        if name:
            found[name] = Mirror(name, patterns.split("|"))
    return found
