"""One mirror on one broker: the partitions that this broker leads are fetched from their leaders at the source.

The metadata of the source are read again and again in a thread. The live broker with the lowest id also makes the
topics here those of the source (`topic_changes`), and carries over the offsets of groups (`group_offsets`), and ACLs
and quotas if that is wanted (`carrying`).

Not here: requests and answers (`mirror_feed`), what is appended (`kpybroker.machines.mirror.feeding`).
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kpybroker.client.sources import MirrorSource
from kpybroker.config.own_configs import MIRROR_RATE
from kpybroker.hosts.mirror.carrying import SettingsCarrier
from kpybroker.hosts.mirror.group_offsets import GroupOffsets
from kpybroker.hosts.mirror.mirror_feed import MirrorFeed
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.place_finder import PlaceFinder
from kpybroker.hosts.mirror.reading import SourceLeader, SourceMetadata, TopicConfigs, read_metadata
from kpybroker.hosts.mirror.shown_parts import ShownParts
from kpybroker.hosts.mirror.source import LOST, SourcePeer
from kpybroker.hosts.mirror.source_transactions import SourceTransactions
from kpybroker.hosts.mirror.topic_changes import TopicChanges
from kpybroker.hosts.replicas.feed import FeedParts
from kpybroker.hosts.replicas.log_starts import LogStarts
from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.hosts.replicas.throttle import ReplicaThrottle
from kpybroker.hosts.replicas.tiering import NoTiering
from kpybroker.machines.config_def import LONG_MAX
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.mirror_configs import EXPORTED, JOINING, SOURCE, STATE
from kpybroker.machines.mirror.divergence import exported_parts
from kpybroker.machines.mirror.feeding import FedPartition
from kpybroker.machines.mirror.ids import may_be_mirror
from kpybroker.machines.mirror.mirror import Mirror
from kpybroker.machines.replica_fetcher import FetchLimits, FetchState, Following, Key
from kpybroker.runtime.io.scheduler import Submit, Timer
from kpystorage.errors import DiskFailure

log = logging.getLogger("kpybroker.mirror")

LOOK_MS: Final = 1_000
"""The pause between two looks at the metadata of the source."""
CONFIGS_EVERY: Final = 10
"""The configs of topics that are known already are read with every tenth look."""
SOON_MS: Final = 100
"""The pause if an answer has shown that they are old."""


class FedPlace(NamedTuple):
    """The feed of a partition, and the leader epochs here and at the source for which it was made."""

    feed: MirrorFeed
    leader_epoch: int
    source_epoch: int

    def is_for(self, feed: MirrorFeed | None, leader_epoch: int, source_epoch: int) -> bool:
        """Whether it still is the place of a partition. Its leader's epoch at the source counts if requests name it."""
        is_in_epoch = self.source_epoch == source_epoch or not self.feed.by_name
        return self.feed is feed and self.leader_epoch == leader_epoch and is_in_epoch


class MirrorFigures(NamedTuple):
    """The state of a mirror on this broker, in numbers."""

    is_reached: bool
    partitions: int
    failed: int
    lag: int
    """The records that the partition lacks that is most behind."""
    received_bytes: int


class RunningMirror:
    """A mirror, as long as it is configured."""

    def __init__(self, parts: MirrorParts, mirror: Mirror, read: Submit, shown: ShownParts) -> None:
        """``read`` does in a thread what waits for the source."""
        self.mirror = mirror
        self._parts = parts
        self._read = read
        self._topics = TopicChanges(parts, mirror)
        self._groups = GroupOffsets(parts, mirror, read)
        self._transactions = SourceTransactions(parts, read)
        self._shown = shown
        self._finder: PlaceFinder | None = None
        self._settings = SettingsCarrier(parts, mirror, read)
        self._source: MirrorSource | None = None
        self._known: SourceMetadata | None = None
        self._feeds: dict[int, MirrorFeed] = {}
        self._places: dict[Key, FedPlace] = {}
        self._timer: Timer | None = None
        self._is_reading = self._is_following = self._is_outdated = self._stopped = False
        self._looks_soon = False
        self._looks = 0
        self.problem = ""
        """The reason why the source was not read at the last attempt; empty if it was."""
        self._received_bytes = 0
        """The bytes received over connections that are closed."""
        log_starts = LogStarts(parts.scheduler, parts.replicas.directories, parts.replicas.log_start_moved)
        throttle = ReplicaThrottle(self._rate)
        self._feed_parts = FeedParts(
            parts.scheduler,
            self._limits,
            throttle,
            lambda: self._rate() < LONG_MAX,
            lambda _replica: True,
            Replica.changed,
            parts.replicas.directories.check,
            log_starts,
            NoTiering(),
        )

    def start(self) -> None:
        """Begin to read the source."""
        log.info("The mirror %s begins", self.mirror)
        self._look()

    def stop(self) -> None:
        """Fetch no more. The topics stay read-only."""
        log.info("The mirror %s is over on this broker", self.mirror)
        self._stopped = True
        self._groups.stop()
        self._transactions.stop()
        self._settings.stop()
        if self._timer is not None:
            self._timer.cancel()
        for feed in self._feeds.values():
            feed.close()
        self._feeds.clear()
        self._places.clear()

    def figures(self) -> MirrorFigures:
        """The state of the mirror."""
        followings = [each for feed in self._feeds.values() for each in feed.fetcher.followings.values()]
        received_bytes = self._received_bytes + sum(feed.received_bytes for feed in self._feeds.values())
        return MirrorFigures(
            self._known is not None and not self.problem,
            len(followings),
            sum(each.state is FetchState.FAILED for each in followings),
            max((each.lag or 0 for each in followings), default=0),
            received_bytes,
        )

    @property
    def source(self) -> MirrorSource | None:
        """The source as it was last reached; None before that."""
        return self._source

    def failed(self) -> set[tuple[str, int]]:
        """The partitions led here that wait for an operator."""
        followings = (each for feed in self._feeds.values() for each in feed.fetcher.followings.values())
        return {(each.replica.topic.name, each.replica.index) for each in followings if each.state is FetchState.FAILED}

    def carried(self) -> dict[str, int]:
        """The groups that this broker has carried over, each with the number of its offsets."""
        return self._groups.carried()

    def _rate(self) -> int:
        rate: int = self._parts.config()[MIRROR_RATE]
        return rate

    def _limits(self) -> FetchLimits:
        config = self._parts.config()
        return FetchLimits(
            config["replica.fetch.wait.max.ms"],
            config["replica.fetch.min.bytes"],
            config["replica.fetch.response.max.bytes"],
            config["replica.fetch.max.bytes"],
            config["replica.fetch.backoff.ms"],
        )

    # The source's metadata

    def look_soon(self) -> None:
        """Read the metadata of the source again soon."""
        if not self._looks_soon and not self._is_reading and not self._stopped:
            self._looks_soon = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._parts.scheduler.call_later(SOON_MS, self._look)

    def _look(self) -> None:
        self._timer = None
        self._looks_soon = False
        self._is_reading = True
        mirror, read_source = self.mirror, self._parts.read_source
        configs = self._configs() if self._parts.is_lowest else None

        def read() -> tuple[MirrorSource, SourceMetadata]:
            source = read_source(mirror.name)
            with source.client() as client:
                return source, read_metadata(client, mirror, configs)

        self._read(read, self._has_read)

    def _configs(self) -> TopicConfigs:
        """The configs of the source's topics that are not read again in this look."""
        self._looks += 1
        is_due = self._known is None or self._looks % CONFIGS_EVERY == 0
        if is_due or self._known is None:
            return {}
        return {topic.name: topic.configs for topic in self._known.topics if topic.configs is not None}

    def _has_read(self, found: tuple[MirrorSource, SourceMetadata] | None, error: BaseException | None) -> None:
        self._is_reading = False
        if self._stopped:
            return
        if found is None:
            self._note_problem(error)
        else:
            if self.problem:
                log.info("The source of mirror %s is reached again", self.mirror.name)
                self.problem = ""
            self._source, self._known = found
            self.follow_leaders()
            if self._parts.is_lowest:
                self._topics.bring_about(self._known.topics)
                self._groups.begin(self._source)
                self._settings.begin(self._source)
                self._find_places(self._source)
            else:
                self._groups.stop()
                self._settings.stop()
                self._transactions.stop()
        self._timer = self._parts.scheduler.call_later(LOOK_MS, self._look)

    def _find_places(self, source: MirrorSource) -> None:
        finder = self._shown.finder(self.mirror.name)
        if finder is not None:
            if finder is not self._finder:
                self._finder = finder
                self._transactions.wanted, self._transactions.looked = finder.wanted, finder.looked
                finder.hurry = self._transactions.soon
                self._transactions.again()
            self._transactions.begin(source)

    def _note_problem(self, error: BaseException | None) -> None:
        problem = str(error)
        if problem != self.problem:
            self.problem = problem
            is_known = isinstance(error, LOST)
            log.warning(
                "The source of mirror %s cannot be read: %s",
                self.mirror.name,
                problem,
                exc_info=None if is_known else error,
            )

    # Partitions

    def changed(self, partitions: Iterable[Key], configured: Iterable[str]) -> None:
        """Follow a change of these partitions, and of the configs of these topics. Failed partitions of the topics are
        tried again."""
        for key in partitions:
            self._leave_if_moved(key)
        for topic in filter(None, map(self._parts.replicas.topics.get, configured)):
            for index in topic.replicas:
                key = topic.id, index
                place = self._places.get(key)
                following = None if place is None else place.feed.fetcher.followings.get(key)
                if following is not None and following.state is FetchState.FAILED:
                    self._leave(key)
                else:
                    self._leave_if_moved(key)
        self.follow_leaders()

    def follow_leaders(self) -> None:
        """Fetch the partitions that this broker leads, each from its leader at the source as last known. What takes
        long is done in later turns of the loop."""
        self._is_outdated = True
        if not self._is_following:
            self._is_following = True
            self._parts.scheduler.in_pieces(self._follow_in_pieces())

    def _follow_in_pieces(self) -> Iterator[None]:
        try:
            while self._is_outdated and self._known is not None and self._source is not None and not self._stopped:
                self._is_outdated = False
                yield from self._follow_all(self._known, self._source)
        finally:
            self._is_following = False

    def _follow_all(self, known: SourceMetadata, source: MirrorSource) -> Iterator[None]:
        """Follow all partitions, until the metadata of the source or of this cluster are others."""
        topics: list[HeldTopic] = []
        wants_names = False
        for topic in list(self._parts.replicas.topics.values()):
            yield
            if self._is_fed(topic, known):
                topics.append(topic)
                by_name = known.ids[topic.name] != topic.id
                wants_names |= by_name and any(replica.is_led_here for replica in topic.replicas.values())
        for leader_id, feed in list(self._feeds.items()):
            address = known.addresses.get(leader_id)
            if address != (feed.peer.host, feed.peer.port) or feed.wants_names != wants_names:
                self._close(leader_id)
        for key in list(self._places):
            yield
            self._leave_if_moved(key)
        grown: dict[MirrorFeed, None] = {}
        for key in ((topic.id, index) for topic in topics for index in list(topic.replicas)):
            yield
            if self._stopped:
                return
            if self._is_outdated:
                break
            if key not in self._places and (found := self._led_here(key)) is not None:
                replica, leader = found
                peer = SourcePeer(source, *known.addresses[leader.node_id])
                if self._follow(key, replica, leader, peer, wants_names=wants_names):
                    grown[self._places[key].feed] = None
        for feed in grown:
            if feed.waits_since_ms >= 0:
                feed.interrupt()
            else:
                feed.wake()

    def _is_fed(self, topic: HeldTopic, known: SourceMetadata) -> bool:
        """Return whether batches of this mirror's source are appended to a topic."""
        if not topic.config.is_fed or topic.config.overrides[SOURCE] != self.mirror.name:
            return False
        topic_id = known.ids.get(topic.name)
        return topic_id is not None and may_be_mirror(topic.id, topic_id)

    def _led_here(self, key: Key) -> tuple[Replica, SourceLeader] | None:
        """A partition that this broker has to fetch, with its leader at the source."""
        known, topic = self._known, self._parts.replicas.by_id.get(key[0])
        if known is None or topic is None or not self._is_fed(topic, known):
            return None
        replica, leader = topic.replicas.get(key[1]), known.leaders.get((topic.name, key[1]))
        if replica is None or leader is None or leader.node_id not in known.addresses or not replica.is_led_here:
            return None
        return replica, leader

    def _leave_if_moved(self, key: Key) -> None:
        """Fetch a partition no more from where it was led in another epoch, here or at the source."""
        place = self._places.get(key)
        if place is not None:
            found = self._led_here(key)
            if found is None or not place.is_for(
                self._feeds.get(found[1].node_id), found[0].partition.leader_epoch, found[1].epoch
            ):
                self._leave(key)

    def _leave(self, key: Key) -> None:
        feed = self._places.pop(key).feed
        feed.remove(key)
        feed.wake()

    def _follow(self, key: Key, replica: Replica, leader: SourceLeader, peer: SourcePeer, *, wants_names: bool) -> bool:
        """Add a partition to the feed of its leader. ``peer`` is for the first one of that leader. False if this
        partition cannot be fetched yet."""
        try:
            fed = FedPartition(replica.led(), _exported_from(replica))
        except DiskFailure as failure:
            self._parts.replicas.directory_failed(failure)
            return False
        except KafkaError as error:
            log.debug("%s is not fetched: %s", replica, error)
            return False
        feed = self._feeds.get(leader.node_id)
        if feed is None:
            feed = MirrorFeed(
                self._feed_parts,
                leader.node_id,
                peer,
                self._limits,
                self.look_soon,
                self._shown.held,
                wants_names=wants_names,
            )
            self._feeds[leader.node_id] = feed
        feed.add_in(Following(key, fed, replica), leader.epoch)
        self._places[key] = FedPlace(feed, replica.partition.leader_epoch, leader.epoch)
        return True

    def _close(self, leader_id: int) -> None:
        feed = self._feeds.pop(leader_id)
        self._received_bytes += feed.received_bytes
        for key in list(feed.fetcher.followings):
            self._places.pop(key, None)
        feed.close()


def _exported_from(replica: Replica) -> int | None:
    """The offset from which on records are exported: the log's end in a partition that had nothing to export. None if
    that does not matter, since the topic has joined its source."""
    configs = replica.topic.config.overrides
    if configs.get(STATE) != JOINING:
        return None
    part = exported_parts(configs.get(EXPORTED, "")).get(replica.index)
    return replica.led().log.log_end_offset if part is None else part.first_offset
