"""The connection to a leader over which each followed partition is fetched (Kafka's ReplicaFetcherManager).

There are ``num.replica.fetchers`` connections to each leader, and partitions are spread over them by their names. A
leader may keep a request waiting for ``replica.fetch.wait.max.ms``, and nothing can be added to a waiting request. So a
partition that comes while the request of its connection waits is fetched over a second connection. If that one waits
too, its request is dropped and sent again. So a new leader is asked at once.

Logs are opened for fetching soon, a few a turn. Not here: requests and answers (`kpybroker.hosts.replicas.feed`).
"""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple
from zlib import crc32

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peer import Connect, Peer
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.feed import Feed, FeedParts
from kpybroker.hosts.replicas.log_starts import LogStarts
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.throttle import ReplicaThrottle
from kpybroker.hosts.replicas.tiering import NoTiering, Tiering
from kpybroker.machines.config_def import LONG_MAX
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.replica_fetcher import Fetcher, FetchLimits, FetchState, Following, Key
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.errors import DiskFailure, TooManyOpenFiles

log = logging.getLogger("kpybroker.replication")

RATE = "follower.replication.throttled.rate"
LANES = 2
"""Connections with the same fetcher number: see above."""
INTERRUPT_AFTER_MS = 20.0
"""A request that has waited for this long is dropped if a new partition needs the connection."""
INTERRUPT_MS_PER_PARTITION = 0.1
"""The additional wait for each partition that would have to be asked for again over the connection."""
OPEN_AGAIN_MS = 1_000

Address = Callable[[int], tuple[str, int] | None]
"""The address where a broker listens for other brokers; None if it is not known."""


class Leaders(NamedTuple):
    """The way to the leaders: their addresses, and how to connect."""

    address: Address
    connect: Connect


class FetchSource(NamedTuple):
    """The connection over which a partition is fetched, and the epoch."""

    feed: Feed
    epoch: int


class Fetchers:
    """All followed partitions of one node."""

    def __init__(  # noqa: PLR0913
        self,
        node_id: int,
        scheduler: Scheduler,
        leaders: Leaders,
        directories: Directories,
        config: Callable[[], BrokerConfig],
        broker_epoch: Callable[[], int],
        truncated: Callable[[Replica], object],
        tiering: Tiering | None = None,
    ) -> None:
        """``truncated`` is called with every replica whose log was truncated. Without ``tiering`` no leader has a part
        of its log elsewhere."""
        self.scheduler = scheduler
        self._node_id = node_id
        self._address, self._connect = leaders
        self._disk_failed = directories.check
        self._config = config
        self._broker_epoch = broker_epoch
        self._feeds: dict[tuple[int, int], list[Feed]] = {}
        self._places: dict[Key, FetchSource] = {}
        self._wanted: dict[Key, Replica] = {}
        """Partitions that other brokers lead, even if the broker's address is not known."""
        self._to_open: dict[Key, Replica] = {}
        self._is_opening = False
        self._changed: dict[Feed, bool] = {}
        """Connections whose partitions have changed, and whether there are new ones."""
        self._count = self._fetchers()
        self._stopped = False
        self._received_bytes = 0
        """The bytes received over connections that are closed."""
        self._damaged_answers = 0
        self._parts = FeedParts(
            scheduler,
            self._limits,
            ReplicaThrottle(lambda: self._rate),
            lambda: self._rate < LONG_MAX,
            self._is_throttled,
            truncated,
            directories.check,
            LogStarts(scheduler, directories, self._log_start_taken_over),
            NoTiering() if tiering is None else tiering,
        )

    def __iter__(self) -> Iterator[Feed]:
        for lanes in self._feeds.values():
            yield from lanes

    def stop(self) -> None:
        """Stop fetching."""
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

    def _limits(self) -> FetchLimits:
        config = self._config()
        return FetchLimits(
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.backoff.ms"],
        )

    def _is_throttled(self, replica: Replica) -> bool:
        """Whether a topic's ``follower.replication.throttled.replicas`` name this node's replica."""
        throttled = replica.topic.config.follower_throttled_replicas
        return bool(throttled) and ("*" in throttled or f"{replica.index}:{self._node_id}" in throttled)

    def reconfigure(self) -> None:
        """Take over a change of the broker's configuration."""
        if self._fetchers() != self._count:
            self._count = self._fetchers()
            self._begin_anew(list(self))

    # What is followed.

    def follow(self, replica: Replica) -> None:
        """Fetch a partition that another broker leads, possibly in a new epoch, after its log was opened."""
        key = (replica.topic.id, replica.index)
        self._wanted[key] = replica
        place = self._places.get(key)
        if place is not None:
            if (place.feed.leader_id, place.epoch) == (replica.partition.leader, replica.partition.leader_epoch):
                return
            self._leave(key)
        if self._address(replica.partition.leader) is None:
            log.warning(
                "%s cannot be fetched: its leader, broker %d, is not in the metadata", replica, replica.partition.leader
            )
            return
        self._to_open[key] = replica
        if not self._is_opening:
            self._is_opening = True
            self.scheduler.call_soon(self._begin_opening)

    def forget(self, replica: Replica) -> None:
        """Stop fetching a partition: it is led here, has no leader, or is gone."""
        key = (replica.topic.id, replica.index)
        if self._wanted.pop(key, None) is not None:
            self._to_open.pop(key, None)
            self._leave(key)

    def configured(self, replica: Replica) -> None:
        """Retry a partition that had failed, since its topic's configuration changed and it may succeed now."""
        key = (replica.topic.id, replica.index)
        place = self._places.get(key)
        following = None if place is None else place.feed.fetcher.followings.get(key)
        if following is not None and following.state is FetchState.FAILED:
            self._leave(key)
            self.follow(replica)

    def log_start_moved(self, replica: Replica) -> None:
        """Report a partition's new log start to its leader with the next request."""
        place = self._places.get((replica.topic.id, replica.index))
        if place is not None:
            place.feed.fetcher.moved((replica.topic.id, replica.index))

    def _log_start_taken_over(self, replica: Replica) -> None:
        replica.log_start_moved()
        self.log_start_moved(replica)

    def state(self) -> tuple[int, int]:
        """The records that the most lagging partition lacks, and how many partitions have failed."""
        all_followed = [each for feed in self for each in feed.fetcher.followings.values()]
        failed = sum([each.state is FetchState.FAILED for each in all_followed])
        return max([each.lag or 0 for each in all_followed], default=0), failed

    @property
    def received_bytes(self) -> int:
        """Bytes of records that were received since the start."""
        return self._received_bytes + sum([feed.received_bytes for feed in self])

    @property
    def damaged_answers(self) -> int:
        """The answers of leaders since the start that had damaged records."""
        return self._damaged_answers + sum([feed.damaged_answers for feed in self])

    def brokers_changed(self) -> None:
        """Reconnect where brokers came, left, or changed their addresses."""
        self._begin_anew([feed for feed in self if self._address(feed.leader_id) != feed.address])
        for key, replica in list(self._wanted.items()):
            is_there = self._address(replica.partition.leader) is not None
            if is_there and key not in self._places and key not in self._to_open:
                self.follow(replica)

    def _begin_anew(self, feeds: list[Feed]) -> None:
        """Close connections, and fetch their partitions over new ones."""
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
        self._damaged_answers += feed.damaged_answers
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
                    log.exception("%s is not fetched because of a defect", replica)  # the others are
                yield
        finally:
            self._is_opening = False
        self._settle()

    def _settle(self) -> None:
        """Have connections ask for added partitions, and close those without any partition."""
        changed, self._changed = self._changed, {}
        for feed, has_more in changed.items():
            try:
                if not feed.fetcher.followings:
                    self._drop(feed)
                elif has_more:
                    self._send_on(feed)
            except Exception:
                log.exception("No request was sent to broker %d because of a defect", feed.leader_id)

    def _place(self, key: Key, replica: Replica) -> None:
        try:
            follower = replica.followed()
            follower.begin(self.scheduler.now_ms())
        except TooManyOpenFiles as failure:
            self._disk_failed(failure)
            self.scheduler.call_later(OPEN_AGAIN_MS, self._open_again, key, replica)
            return
        except DiskFailure as failure:
            self._disk_failed(failure)
            return
        except KafkaError as error:
            log.debug("%s is not fetched: %s", replica, error)
            return
        leader, epoch = replica.partition.leader, replica.partition.leader_epoch
        feed = self._feed(leader, replica)
        if feed is not None:
            self._places[key] = FetchSource(feed, epoch)
            feed.add(Following(key, follower, replica))
            self._changed[feed] = True

    def _open_again(self, key: Key, replica: Replica) -> None:
        if self._wanted.get(key) is replica and key not in self._places and not self._stopped:
            self.follow(replica)

    def _feed(self, leader_id: int, replica: Replica) -> Feed | None:
        """The connection for one more partition of a leader: preferably one whose request is not waiting."""
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
        name = f"broker-{self._node_id}-fetcher-{number}"
        timeout_ms = self._config()["replica.socket.timeout.ms"]
        peer = Peer(self.scheduler, self._connect, *address, name, timeout_ms)
        fetcher = Fetcher(self._node_id, self._broker_epoch, self._limits)
        lanes.append(Feed(self._parts, leader_id, peer, fetcher))
        return lanes[-1]

    def _send_on(self, feed: Feed) -> None:
        """Have a connection ask for added partitions, even if its request is waiting at the leader."""
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
