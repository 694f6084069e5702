"""The connection to one broker of a source: the feed of a leader's followers, with another cluster at its other end.

A broker before Kafka 3.1 fetches by the names of topics, and so does every broker for a topic whose id is not the
source's. Then each partition is compared with the source (`agreement`) before it is fetched: over a new connection, in
a new epoch of its leader there, and after each error.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from kpybroker.hosts.mirror import agreeing
from kpybroker.hosts.mirror.agreeing import AT_ONCE, ComparedPartition
from kpybroker.hosts.mirror.held_partitions import HeldBackPartitions
from kpybroker.hosts.mirror.source import SourcePeer
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.replicas.feed import Feed, FeedParts
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror import agreement
from kpybroker.machines.mirror.divergence import EpochEnd
from kpybroker.machines.mirror.feeding import NO_EPOCH, EpochAhead, FedPartition
from kpybroker.machines.mirror.naming import WITH_NAMES
from kpybroker.machines.replica_fetcher import Fetcher, FetchLimits, FetchState, Following, Key, SessionPartition
from kpywire import error_codes
from kpywire.messages.fetch import PartitionData

log = logging.getLogger("kpybroker.mirror")

CONSUMER: Final = -1
"""The replica id of a consumer: a foreign cluster answers no stranger's follower."""


SMALL_LAG: Final = 1_000
"""With no more records behind, a partition counts as caught up."""
OUT_OF_ORDER: Final = error_codes.UNKNOWN_SERVER_ERROR
"""The code for batches that do not continue a log."""
MOST_WAIT_MS: Final = 100
"""The longest wait of a fetch by name. A topic that is deleted and created again within one would not be noticed."""


class ComparingFetcher(Fetcher):
    """A fetcher whose partitions are compared again after a pause, if ``compares`` is set."""

    compares = False

    def __init__(self, limits: Callable[[], FetchLimits], again: Callable[[Following, float], object]) -> None:
        """``again`` is called for a partition that is to be compared after a pause, in ms."""
        super().__init__(CONSUMER, lambda: -1, self._limited)
        self._configured = limits
        self._again = again

    def _limited(self) -> FetchLimits:
        found = self._configured()
        return found._replace(max_wait_ms=min(found.max_wait_ms, MOST_WAIT_MS)) if self.compares else found

    def delay(self, following: Following, now_ms: float) -> float:
        """Pause a partition. It is not fetched before it is compared."""
        if not self.compares:
            return super().delay(following, now_ms)
        wait_ms = self.pause_ms(following)
        self.stop(following, FetchState.ASKING)
        self._again(following, wait_ms)
        return wait_ms


class MirrorFeed(Feed):
    """Fetches the partitions that one broker of the source leads."""

    leader_kind = "the source's broker"

    def __init__(
        self, parts: FeedParts, leader_id: int, peer: SourcePeer, limits: Callable[[], FetchLimits],
        outdated: Callable[[], object], held: HeldBackPartitions, *, wants_names: bool = False,
    ) -> None:  # fmt: skip
        """``outdated`` is called when an answer shows that the metadata of the source, or the epochs here, are old.
        ``held`` decides what is shown. ``wants_names``: some topics cannot be fetched by their ids."""
        self._fetcher = ComparingFetcher(limits, self._again)
        super().__init__(parts, leader_id, peer, self._fetcher)
        self.wants_names = wants_names
        self._source_peer = peer
        self._outdated = outdated
        self._held = held
        self._epochs: dict[Key, int] = {}
        """The epoch of each partition's leader at the source."""
        self._uncompared: dict[Key, None] = {}

    @property
    def by_name(self) -> bool:
        """Whether topics are fetched by their names, in the epoch of their leaders."""
        return self._source_peer.by_name

    def add_in(self, following: Following, source_epoch: int) -> None:
        """Fetch a partition whose leader at the source has this epoch."""
        self._source_peer.know(following.key[0], following.replica.topic.name)
        self._epochs[following.key] = source_epoch
        self._prepare(following)
        self.add(following)

    def _prepare(self, following: Following) -> None:
        """Have a partition compared before it is fetched, if this connection needs that."""
        fed = following.follower
        assert isinstance(fed, FedPartition)
        fed.epoch = self._epochs[following.key] if self.by_name else NO_EPOCH
        if self.by_name:
            self._uncompared[following.key] = None

    # Asking

    def _go(self) -> None:
        if self._closed or self._is_busy or self._asked_ms >= 0:
            return
        if self.fetcher.followings and not self._source_peer.is_connected:
            self._is_busy = True
            self._source_peer.greet(self._greeted)
            return
        due = [each for each in map(self.fetcher.followings.get, self._uncompared) if each is not None]
        due = [each for each in due if each.state is FetchState.FETCHING]
        if due:
            self._compare(due)
        else:
            super()._go()

    def _greeted(self, answer: Any) -> None:
        self._is_busy = False
        if self._closed:
            return
        if isinstance(answer, NoResponse):
            self._retry(answer.reason)
            return
        by_name = self.wants_names or answer <= WITH_NAMES
        self._source_peer.by_name = self._fetcher.compares = by_name
        self._uncompared.clear()
        self.fetcher.lost()
        for following in self.fetcher.followings.values():
            self._prepare(following)
        self._go()

    # Comparing

    def _compare(self, due: list[Following]) -> None:
        self._is_busy = True
        asked = []
        for following in due:
            del self._uncompared[following.key]
            epoch = following.follower.log.epochs.latest
            if epoch >= 0:
                asked.append((following, epoch))
        if asked:
            self.peer.send(agreeing.epochs_request(asked), partial(self._on_epochs, asked))
        else:
            self._compared()

    def _on_epochs(self, asked: list[tuple[Following, int]], response: Any) -> None:
        if self._is_lost(response):
            return
        answers = agreeing.epoch_answers(response)
        further: list[ComparedPartition] = []
        for following, epoch in asked:
            answer = answers.get((following.replica.topic.name, following.replica.index))
            code = error_codes.NETWORK_EXCEPTION if answer is None else answer.error_code
            if self.fetcher.followings.get(following.key) is not following:
                continue
            if answer is None or code:
                self._refused(following, code, fails=code == error_codes.FENCED_LEADER_EPOCH)
                continue
            try:
                each = self._agreed(following, epoch, EpochEnd(answer.leader_epoch, answer.end_offset))
                if each.mine:
                    further.append(each)
                else:
                    self._settle(each)
            except Exception as error:
                self._failed(following, error)
        self._ask_batches(further)

    def _agreed(self, following: Following, epoch: int, there: EpochEnd) -> ComparedPartition:
        fed = following.follower
        assert isinstance(fed, FedPartition)
        cut = agreement.agreed_end(fed, epoch, there)
        mine = agreeing.batch_before(fed, cut) if cut > fed.log.log_start_offset else b""
        return ComparedPartition(following, fed, epoch, there, cut, mine)

    def _settle(self, each: ComparedPartition) -> None:
        """Cut off what the source has lost. Then the epoch before may have ended earlier, too."""
        if each.cut < each.fed.log.end.offset:
            each.fed.truncate(*each.there, self._parts.scheduler.now_ms())
            self._cut(each.following)
            if each.there.epoch < each.asked_epoch:
                self._uncompared[each.following.key] = None

    def _ask_batches(self, left: list[ComparedPartition], at_once: int = AT_ONCE) -> None:
        if not left:
            self._compared()
            return
        asked, rest = left[:at_once], left[at_once:]
        self.peer.send(agreeing.batches_request(asked), partial(self._on_batches, asked, rest))

    def _on_batches(self, asked: list[ComparedPartition], rest: list[ComparedPartition], response: Any) -> None:
        if self._is_lost(response):
            return
        answers = agreeing.batch_answers(response)
        again: list[ComparedPartition] = []
        outside: list[ComparedPartition] = []
        for each in asked:
            if self.fetcher.followings.get(each.following.key) is not each.following:
                continue
            try:
                answer = answers.get(each.following.key)
                if answer is not None and answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                    outside.append(each)
                elif not self._take_batch(each, answer):
                    again.append(each)
            except Exception as error:
                self._failed(each.following, error)
        if again and len(asked) == 1:  # its first batch is not there: the source cannot show it yet
            self.fetcher.delay(again.pop().following, self._parts.scheduler.monotonic_ms())
        follow_up = partial(self._ask_batches, [*again, *rest], 1 if again else AT_ONCE)
        if outside:
            self.peer.send(agreeing.starts_request(outside), partial(self._on_starts, outside, follow_up))
        else:
            follow_up()

    def _on_starts(self, outside: list[ComparedPartition], follow_up: Callable[[], object], response: Any) -> None:
        """Handle where the source's logs begin that do not have a batch any more: behind it, or they are others."""
        if self._is_lost(response):
            return
        answers = agreeing.start_answers(response)
        for each in outside:
            answer = answers.get((each.following.replica.topic.name, each.following.replica.index))
            code = error_codes.NETWORK_EXCEPTION if answer is None else answer.error_code
            if self.fetcher.followings.get(each.following.key) is not each.following:
                continue
            try:
                if answer is None or code:
                    self._refused(each.following, code, fails=code == error_codes.FENCED_LEADER_EPOCH)
                else:
                    agreement.check_start(each.fed, each.cut, answer.offset)
                    self._settle(each)
            except Exception as error:
                self._failed(each.following, error)
        follow_up()

    def _take_batch(self, each: ComparedPartition, answer: PartitionData | None) -> bool:
        """Whether the comparison of a partition is over."""
        code = error_codes.NETWORK_EXCEPTION if answer is None else answer.error_code
        if answer is None or code:
            self._refused(each.following, code, fails=code == error_codes.FENCED_LEADER_EPOCH)
            return True
        is_compacted = each.fed.log.config.cleanup_compact
        theirs = memoryview(answer.records or b"")
        if not agreement.check_batch(each.fed, each.mine, theirs, is_compacted=is_compacted):
            return False
        self._settle(each)
        return True

    def _compared(self) -> None:
        self._is_busy = False
        self._go()

    def _is_lost(self, response: Any) -> bool:
        """Whether there is nothing to judge: no answer, or the feed is closed."""
        if self._closed:
            return True
        if isinstance(response, NoResponse):
            self._is_busy = False
            self._retry(response.reason)  # all are compared again over the next connection
            return True
        return False

    def _again(self, following: Following, wait_ms: float) -> None:
        self._parts.scheduler.call_later(wait_ms, partial(self._is_over, following))

    def _is_over(self, following: Following) -> None:
        """Handle the end of a pause."""
        if not self._closed and self.fetcher.followings.get(following.key) is following:
            self.fetcher.go_on(following)
            self._prepare(following)
            self.wake()

    # Answers

    def _take(self, following: Following, asked: SessionPartition, answer: PartitionData) -> Iterator[None]:
        has_less = answer.high_watermark < following.follower.log.end.offset
        if self.by_name and answer.error_code == error_codes.NONE and has_less:
            self.fetcher.delay(following, self._parts.scheduler.monotonic_ms())  # or the leader is just new
        else:
            yield from super()._take(following, asked, answer)

    def _append(self, following: Following, answer: PartitionData) -> Iterator[None]:
        fed = following.follower
        before = fed.log.end.offset
        if isinstance(fed, FedPartition):
            fed.source_log_start = answer.log_start_offset
        yield from super()._append(following, answer)
        if answer.records:
            self._held.appended(following.replica, answer.records, before)
        if following.lag is not None and following.lag <= SMALL_LAG:
            self._held.caught_up(following.replica)
        following.replica.appended()  # the followers in this cluster wait for it

    def _refused(self, following: Following, code: int, *, fails: bool = False) -> None:
        super()._refused(following, code, fails=fails)
        self._outdated()

    def _failed(self, following: Following, error: Exception) -> None:
        if isinstance(error, EpochAhead):
            log.log(logging.DEBUG if following.errors else logging.INFO, "%s", error.message)
            self.fetcher.delay(following, self._parts.scheduler.monotonic_ms())
            self._outdated()
        elif self.by_name and not following.errors and isinstance(error, KafkaError) and error.code == OUT_OF_ORDER:
            log.info("%s", error.message)
            self.fetcher.delay(following, self._parts.scheduler.monotonic_ms())  # perhaps it is of another topic
        else:
            super()._failed(following, error)

    def _retry(self, reason: str, *, at_once: bool = False) -> None:
        super()._retry(reason, at_once=at_once)
        self._outdated()
