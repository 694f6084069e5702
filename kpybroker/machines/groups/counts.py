"""The counters that all group coordinators of a node share, for metrics. Nothing is decided by them."""

from typing import Final

STORED: Final = "set-success"
REFUSED: Final = "set-error"
SHOWN: Final = "get-success"
NOT_SHOWN: Final = "get-error"
DELETED: Final = "delete-success"
"""The outcomes that are counted of descriptions of topologies (KIP-1331), by Kafka's names."""


class Counts:
    """One set of counters for all shards of a node."""

    __slots__ = ("descriptions", "rebalances")

    def __init__(self) -> None:
        self.rebalances: dict[str, int] = {}
        """Rebalances, by kind of group."""
        self.descriptions: dict[str, int] = {}
        """Operations on descriptions of topologies, by outcome."""

    def count_rebalance(self, kind: str) -> None:
        """Count a rebalance of a group of a kind, as Kafka's metrics do."""
        self.rebalances[kind] = self.rebalances.get(kind, 0) + 1

    def count_description(self, outcome: str) -> None:
        """Count an operation on the description of a topology."""
        self.descriptions[outcome] = self.descriptions.get(outcome, 0) + 1
