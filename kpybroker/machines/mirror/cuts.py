"""The knowledge of a mirror and its source: held markers, leaders' reports of them, and cuts through the source."""

from collections.abc import Mapping
from typing import NamedTuple

from kpybroker.machines.mirror.decisions import Epochs

Place = tuple[bytes, int]
"""The topic's id, and the index of the partition."""


class HeldMarker(NamedTuple):
    """A COMMIT marker of the source."""

    offset: int
    producer_id: int
    epoch: int
    is_empty: bool = False
    """No record of the producer was seen since its marker before."""


class LeaderReport(NamedTuple):
    """The state of a partition at its leader here. Reports of one leader epoch continue one another."""

    leader_epoch: int
    first: int
    """The markers from here on are reported; what comes before was shown, or was reported before."""
    listed_to: int
    """They are all markers below this offset, which are replicated."""
    replicated: int
    """The offset up to which all replicas in sync have the log."""
    markers: tuple[HeldMarker, ...]


class SettledCut(NamedTuple):
    """The ends of the partitions at the source, and the transactions that were not settled there."""

    number: int
    ends: Mapping[Place, int]
    unsettled: Mapping[int, Epochs]

    def settles(self, producer_id: int, epoch: int) -> bool:
        """Whether all markers of such a transaction that lie anywhere lie below the ends."""
        found = self.unsettled.get(producer_id)
        return found is None or epoch < found.first
