"""The changes of a search in their order, with the reason of each. Not here: the order of their execution."""

from typing import NamedTuple

from kpybroker.machines.balance.goals import MoveReason


class LoggedMove(NamedTuple):
    """A change of a partition: the nodes are indexes. Leaders move between nodes that stay."""

    reason: MoveReason
    partition: int
    source: int
    target: int


Reasons = dict[int, list[LoggedMove]]
"""The changes of each partition, the most important first."""


class MoveLog:
    """The changes of one search."""

    def __init__(self) -> None:
        self.moves: list[LoggedMove] = []

    def __len__(self) -> int:
        return len(self.moves)

    def note(self, reason: MoveReason, partition: int, source: int, target: int) -> None:
        """Note a change that is about to be made."""
        self.moves.append(LoggedMove(reason, partition, source, target))

    def reasons(self) -> Reasons:
        """The changes of each partition, the most important first."""
        found: Reasons = {}
        for each in self.moves:
            found.setdefault(each.partition, []).append(each)
        return {partition: sorted(moves) for partition, moves in found.items()}
