"""Checks in the moment in which it happens: acknowledgements of acks=all, and logs that are cut.

The acknowledging node leads still, in the term in which it appended; the record is the one it appended, lies below the
high watermark, and everybody has it who is in sync by what the controller granted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kpybroker.hosts.replicas.commit_wait import CommitWait
from kpybroker.machines.partition.follower import PartitionFollower

if TYPE_CHECKING:
    from .world import World


class Witness:
    """Sees every request that waits until it is committed."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._epochs: dict[tuple[Any, int], int] = {}
        """By request and place of an answer: the epoch of its batch in the log."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch as long as this lasts."""
        begin, check, cut = CommitWait.__init__, CommitWait.check, PartitionFollower._truncate

        def begun(wait: Any, *arguments: Any) -> None:
            begin(wait, *arguments)
            for each in wait.undecided:
                self._appended(wait, each)

        def checked(wait: Any) -> None:
            before = [(each, each.answers[each.place]) for each in wait.undecided]
            check(wait)
            left = set(map(id, wait.undecided))
            for each, answer in before:
                if id(each) not in left and each.answers[each.place] is answer:
                    self._acknowledged(wait, each)

        def truncated(follower: Any, offset: int, now_ms: int) -> None:
            cut(follower, offset, now_ms)
            self._world.is_decided()

        PartitionFollower._truncate = truncated  # type: ignore[method-assign, assignment]
        CommitWait.__init__ = begun  # type: ignore[assignment]
        CommitWait.check = checked  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            PartitionFollower._truncate, CommitWait.__init__, CommitWait.check = cut, begin, check  # type: ignore[method-assign]

    def _appended(self, wait: Any, each: Any) -> None:
        replica = each.replica
        leader = replica.leader
        if leader is None:
            return
        self._epochs[wait, each.place] = leader.log.epochs.epoch_for(each.next_offset - 1)
        needed = min(replica.topic.config.min_insync_replicas, len(leader.in_sync.replicas))
        if len(leader.isr) < needed:
            self._world.violated(f"{replica} takes acks=all with {sorted(leader.isr)} in sync, and needs {needed}")

    def _acknowledged(self, wait: Any, each: Any) -> None:
        replica = each.replica
        leader = replica.leader
        what = f"{replica} up to {each.next_offset}"
        if leader is None:
            self._world.violated(f"{what} is acknowledged by who does not lead")
            return
        if leader.high_watermark.offset < each.next_offset:
            self._world.violated(f"{what} is acknowledged with the high watermark at {leader.high_watermark.offset}")
        epoch = leader.log.epochs.epoch_for(each.next_offset - 1)
        if epoch != self._epochs.pop((wait, each.place), epoch):
            self._world.violated(f"{what} is acknowledged, and another batch stands there, of epoch {epoch}")
        self._world.is_decided()
