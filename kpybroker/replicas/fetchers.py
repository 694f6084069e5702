"""Which connection to which leader each followed partition is fetched over (Kafka's ReplicaFetcherManager).

To each leader go ``num.replica.fetchers`` connections, among which partitions are spread by their names. Since a
leader may keep a request waiting for ``replica.fetch.wait.max.ms``, and a request cannot be added to, a partition that
is new while all that is known is waiting goes over a second one beside it, which is begun anew for it if need be.
So a new leader is asked at once.

Logs are opened for it soon, a few a turn. Not here: what goes over a connection (`kpybroker.replicas.feed`).
"""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.definition import LONG_MAX
from kpybroker.errors import KafkaError
from kpybroker.io.scheduler import Scheduler
from kpybroker.network.peer import Connect, Peer
from kpybroker.replicas.feed import Feed, Surroundings
from kpybroker.replicas.fetcher import Fetcher, Following, Key, Limits, State
from kpybroker.replicas.log_starts import LogStarts
from kpybroker.replicas.replica import Replica
from kpybroker.replicas.replicas import Replicas
from kpybroker.replicas.throttle import Throttle
from kpystorage.errors import DiskFailure, TooManyOpenFiles

log = logging.getLogger("kpybroker.replication")

RATE = "follower.replication.throttled.rate"
LANES = 2
"""Connections for one fetcher's number: see above."""
INTERRUPT_AFTER_MS = 20.0
"""A request that waits for so long is worth less than one for a partition that is new."""
INTERRUPT_MS_PER_PARTITION = 0.1
"""And for so much longer where all are asked for anew that go over the connection."""
OPEN_AGAIN_MS = 1_000

Address = Callable[[int], tuple[str, int] | None]
"""Where a broker listens for other brokers; None where that is not known."""


class Place(NamedTuple):
    """Over which connection a partition is fetched, and in which epoch."""

    feed: Feed
    epoch: int


class Fetchers:
    """All followed partitions of one node."""

    def __init__(
        self,
        scheduler: Scheduler,
        connect: Connect,
        replicas: Replicas,
        address: Address,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
    ) -> None:
        self.scheduler = scheduler
        self.replicas = replicas
        self._connect = connect
        self._address = address
        self._config = config
        self._broker_epoch = broker_epoch
        self._feeds: dict[tuple[int, int], list[Feed]] = {}
        self._places: dict[Key, Place] = {}
        self._wanted: dict[Key, Replica] = {}
        """Partitions that other brokers lead, wherever they listen."""
        self._to_open: dict[Key, Replica] = {}
        self._is_opening = False
        self._changed: dict[Feed, bool] = {}
        """Connections whose partitions have changed, and whether there are new ones."""
        self._count = self._fetchers()
        self._stopped = False
        self._received_bytes = 0
        """Over connections that are gone."""
        self._around = Surroundings(
            scheduler,
            self._limits,
            Throttle(lambda: self._rate),
            lambda: self._rate < LONG_MAX,
            self._is_throttled,
            self._truncated,
            replicas.directory_failed,
            LogStarts(scheduler, replicas.directories, replicas.log_start_moved),
        )

    def __iter__(self) -> Iterator[Feed]:
        for lanes in self._feeds.values():
            yield from lanes

    def stop(self) -> None:
        """Fetch nothing any more."""
        self._stopped = True
        self._to_open.clear()
        self._wanted.clear()
        self._places.clear()
        for feed in self:
            feed.close()
        self._feeds.clear()

    # Configuration.

    def _fetchers(self) -> int:
        return max(int(self._config()["num.replica.fetchers"]), 1)

    @property
    def _rate(self) -> int:
        return self._config().bytes_per_second(RATE)

    def _limits(self) -> Limits:
        config = self._config()
        return Limits(
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.backoff.ms"],
        )

    def _is_throttled(self, replica: Replica) -> bool:
        """Whether a topic's ``follower.replication.throttled.replicas`` name this node's replica."""
        throttled = replica.topic.config.follower_throttled_replicas
        return bool(throttled) and ("*" in throttled or f"{replica.index}:{self.replicas.node_id}" in throttled)

    def reconfigure(self) -> None:
        """The broker's configuration changed."""
        if self._fetchers() != self._count:
            self._count = self._fetchers()
            self._begin_anew(list(self))

    # What is followed.

    def follow(self, replica: Replica) -> None:
        """Another broker leads a partition, in an epoch that may be new: its log is opened, and fetched to."""
        key = (replica.topic.id, replica.index)
        self._wanted[key] = replica
        place = self._places.get(key)
        if place is not None:
            if (place.feed.leader_id, place.epoch) == (replica.partition.leader, replica.partition.leader_epoch):
                return
            self._leave(key)
        if self._address(replica.partition.leader) is None:
            log.warning("%s is not fetched: broker %d is not there", replica, replica.partition.leader)
            return
        self._to_open[key] = replica
        if not self._is_opening:
            self._is_opening = True
            self.scheduler.call_soon(self._begin_opening)

    def forget(self, replica: Replica) -> None:
        """A partition is led here, by nobody, or gone: it is not fetched."""
        key = (replica.topic.id, replica.index)
        if self._wanted.pop(key, None) is not None:
            self._to_open.pop(key, None)
            self._leave(key)

    def log_start_moved(self, replica: Replica) -> None:
        """The log of a partition has lost its oldest records: the leader hears of it with the next request."""
        place = self._places.get((replica.topic.id, replica.index))
        if place is not None:
            place.feed.fetcher.moved((replica.topic.id, replica.index))

    def state(self) -> tuple[int, int]:
        """Records that the partition most behind lacks, and how many partitions have failed."""
        all_followed = [each for feed in self for each in feed.fetcher.followings.values()]
        failed = sum([each.state is State.FAILED for each in all_followed])
        return max([each.lag or 0 for each in all_followed], default=0), failed

    @property
    def received_bytes(self) -> int:
        """Of records, since the start."""
        return self._received_bytes + sum([feed.received_bytes for feed in self])

    def brokers_changed(self) -> None:
        """Brokers came, went, or listen elsewhere."""
        self._begin_anew([feed for feed in self if self._address(feed.leader_id) != feed.address])
        for key, replica in list(self._wanted.items()):
            is_there = self._address(replica.partition.leader) is not None
            if is_there and key not in self._places and key not in self._to_open:
                self.follow(replica)

    def _begin_anew(self, feeds: list[Feed]) -> None:
        """Give connections up; what was fetched over them is fetched over others."""
        for feed in feeds:
            keys = list(feed.fetcher.followings)
            self._drop(feed)
            for key in keys:
                if self._places.pop(key, None) is not None:
                    self.follow(self._wanted[key])

    def _leave(self, key: Key) -> None:
        place = self._places.pop(key, None)
        if place is not None:
            place.feed.remove(key)
            self._changed.setdefault(place.feed, False)
            if not self._is_opening:
                self.scheduler.call_soon(self._settle)

    def _drop(self, feed: Feed) -> None:
        feed.close()
        self._received_bytes += feed.received_bytes
        self._changed.pop(feed, None)
        for number, lanes in list(self._feeds.items()):
            if feed in lanes:
                lanes.remove(feed)
                if not lanes:
                    del self._feeds[number]

    # Opening.

    def _begin_opening(self) -> None:
        self.scheduler.in_pieces(self._open())

    def _open(self) -> Iterator[None]:
        try:
            while self._to_open and not self._stopped:
                key = next(iter(self._to_open))
                replica = self._to_open.pop(key)
                try:
                    self._place(key, replica)
                except Exception:
                    log.exception("%s is not fetched", replica)  # the others are
                yield
        finally:
            self._is_opening = False
        self._settle()

    def _settle(self) -> None:
        """Have connections ask for what was added; those without any partition go."""
        changed, self._changed = self._changed, {}
        for feed, has_more in changed.items():
            try:
                if not feed.fetcher.followings:
                    self._drop(feed)
                elif has_more:
                    self._send_on(feed)
            except Exception:
                log.exception("what is fetched from broker %d is not asked for", feed.leader_id)

    def _place(self, key: Key, replica: Replica) -> None:
        try:
            follower = replica.followed()
            follower.begin(self.scheduler.now_ms())
        except TooManyOpenFiles as failure:
            self.replicas.directory_failed(failure)
            self.scheduler.call_later(OPEN_AGAIN_MS, self._open_again, key, replica)
            return
        except DiskFailure as failure:
            self.replicas.directory_failed(failure)
            return
        except KafkaError as error:
            log.debug("%s is not fetched: %s", replica, error)
            return
        leader, epoch = replica.partition.leader, replica.partition.leader_epoch
        feed = self._feed(leader, replica)
        if feed is not None:
            self._places[key] = Place(feed, epoch)
            feed.add(Following(key, follower, replica))
            self._changed[feed] = True

    def _open_again(self, key: Key, replica: Replica) -> None:
        if self._wanted.get(key) is replica and key not in self._places and not self._stopped:
            self.follow(replica)

    def _feed(self, leader_id: int, replica: Replica) -> Feed | None:
        """The connection for one more partition of a leader: one that does not wait, if there may be one."""
        address = self._address(leader_id)
        if address is None:
            return None
        number = crc32(str(replica).encode()) % self._count
        lanes = self._feeds.setdefault((leader_id, number), [])
        for feed in lanes:
            if feed.waits_since_ms < 0:
                return feed
        if len(lanes) == LANES:
            return lanes[-1]
        name = f"broker-{self.replicas.node_id}-fetcher-{number}"
        timeout_ms = self._config()["replica.socket.timeout.ms"]
        peer = Peer(self.scheduler, self._connect, *address, name, timeout_ms)
        fetcher = Fetcher(self.replicas.node_id, self._broker_epoch, self._limits)
        lanes.append(Feed(self._around, leader_id, peer, fetcher))
        return lanes[-1]

    def _send_on(self, feed: Feed) -> None:
        """Have a connection ask for what was added to it, also if its leader lets it wait."""
        waits_since_ms = feed.waits_since_ms
        if waits_since_ms >= 0:
            least_ms = INTERRUPT_AFTER_MS + len(feed.fetcher.followings) * INTERRUPT_MS_PER_PARTITION
            left_ms = waits_since_ms + least_ms - self.scheduler.monotonic_ms()
            if left_ms > 0:
                self.scheduler.call_later(left_ms, self._interrupt, feed, waits_since_ms)
            else:
                feed.interrupt()
        else:
            feed.wake()

    def _interrupt(self, feed: Feed, waits_since_ms: float) -> None:
        if feed.waits_since_ms == waits_since_ms:
            feed.interrupt()

    # What feeds tell.

    def _truncated(self, replica: Replica) -> None:
        moves = self.replicas.moves
        move = None if moves is None else moves.of(replica.topic.name, replica.index)
        if move is not None:
            move.source_was_cut()
