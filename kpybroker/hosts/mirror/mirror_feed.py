"""The connection to one broker of a source: the feed of a leader's followers, with another cluster at its other end."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from kpybroker.hosts.mirror.source import SourcePeer
from kpybroker.hosts.replicas.feed import Feed, FeedParts
from kpybroker.machines.mirror.feeding import EpochAhead, FedPartition
from kpybroker.machines.replica_fetcher import Fetcher, FetchLimits, Following
from kpywire.messages.fetch import PartitionData

log = logging.getLogger("kpybroker.mirror")

CONSUMER: Final = -1
"""The replica id of a consumer: a foreign cluster answers no stranger's follower."""


class MirrorFeed(Feed):
    """Fetches the partitions that one broker of the source leads."""

    leader_kind = "the source's broker"

    def __init__(
        self, parts: FeedParts, leader_id: int, peer: SourcePeer, limits: Callable[[], FetchLimits],
        outdated: Callable[[], object],
    ) -> None:  # fmt: skip
        """``outdated`` is called when an answer shows that the metadata of the source, or the epochs here, are old."""
        super().__init__(parts, leader_id, peer, Fetcher(CONSUMER, lambda: -1, limits))
        self._outdated = outdated

    def _append(self, following: Following, answer: PartitionData) -> Iterator[None]:
        fed = following.follower
        if isinstance(fed, FedPartition):
            fed.source_log_start = answer.log_start_offset
        yield from super()._append(following, answer)
        following.replica.appended()  # the followers in this cluster wait for it

    def _refused(self, following: Following, code: int, *, fails: bool = False) -> None:
        super()._refused(following, code, fails=fails)
        self._outdated()

    def _failed(self, following: Following, error: Exception) -> None:
        if isinstance(error, EpochAhead):
            log.log(logging.DEBUG if following.errors else logging.INFO, "%s", error.message)
            self.fetcher.delay(following, self._parts.scheduler.monotonic_ms())
            self._outdated()
        else:
            super()._failed(following, error)

    def _retry(self, reason: str, *, at_once: bool = False) -> None:
        super()._retry(reason, at_once=at_once)
        self._outdated()
