"""The pause between two requests to the members of a streams group to describe its topology (KIP-1331). Pure.

(Kafka: ``StreamsGroupTopologyDescriptionBackoff``.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random

    from kpybroker.machines.groups.timers import GroupTimer

FIRST_DELAY_MS: Final = 30_000
LONGEST_DELAY_MS: Final = 3_600_000
_LONGEST_FROM: Final = 7
"""After this many attempts the delay is the longest one."""
_JITTER: Final = 0.2
NO_EPOCH: Final = -1


class DescriptionAsking:
    """The times at which members are asked for the description of a topology. They are lost with the coordinator, so
    the next one asks again."""

    __slots__ = ("attempts", "epoch", "next_ms", "refused_epoch", "timer")

    def __init__(self, timer: GroupTimer) -> None:
        """``timer`` wakes the members at the next attempt."""
        self.timer = timer
        self.epoch = NO_EPOCH
        """The epoch of the topology that was asked for last."""
        self.attempts = 0
        self.next_ms = 0
        self.refused_epoch = NO_EPOCH
        """The epoch of a topology whose description is too large."""

    def may_ask(self, epoch: int, now_ms: int) -> bool:
        """Whether a member is to be asked now for the description of this epoch."""
        return self.refused_epoch != epoch and (self.epoch != epoch or now_ms >= self.next_ms)

    def wait(self, epoch: int, now_ms: int, rng: random.Random) -> int:
        """Note that a member was asked, or that the description could not be kept. Return the time until the next
        attempt."""
        self.attempts = self.attempts + 1 if self.epoch == epoch else 0
        self.epoch = epoch
        longer_ms = FIRST_DELAY_MS << min(self.attempts, _LONGEST_FROM)
        delay_ms = min(int(longer_ms * rng.uniform(1 - _JITTER, 1 + _JITTER)), LONGEST_DELAY_MS)
        self.next_ms = now_ms + delay_ms
        return delay_ms

    def refuse(self, epoch: int) -> None:
        """Ask for no description of this epoch any more."""
        self.refused_epoch = epoch


class DescriptionNotes:
    """The descriptions of all topologies that groups of a shard have."""

    __slots__ = ("asking", "bytes")

    def __init__(self) -> None:
        self.asking: dict[str, DescriptionAsking] = {}
        """The groups whose members are asked for a description, or were."""
        self.bytes = 0
        """The size of all descriptions that are kept."""
