"""The topic ``__remote_log_metadata`` for one broker: what it knows of it, and the way to write to it.

(Kafka: ``TopicBasedRemoteLogMetadataManager``, ``ConsumerManager``, ``ProducerManager``.) A broker knows only what it
has read from the committed log, also of what it wrote itself: brokers of Apache Kafka write there, too. It reads the
partitions of the topic that it needs: those that it leads, those with records of partitions that it holds, and those
that it writes to.

Invariant: each partition that is read has one source, the present leader; `MetadataView` says what that means for
those who ask.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.remote_metadata import PARTITIONS, PREFIX, RemoteMetadataSettings, remote_metadata_settings
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.remote_log.metadata_append import MetadataAppends
from kpybroker.hosts.remote_log.metadata_creation import MetadataTopicCreation, SendToController
from kpybroker.hosts.remote_log.metadata_feed import MetadataFeed
from kpybroker.hosts.remote_log.metadata_log import LedMetadataLog
from kpybroker.hosts.remote_log.metadata_view import MetadataView, ViewWatch
from kpybroker.hosts.remote_log.metadata_writer import Done, MetadataWriter
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.metadata import PartitionKey, RemoteLogMetadata, key_of
from kpybroker.machines.remote_log.segments import Record, RemotePartitionDelete, RemotePartitionDeleteState
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire.remote_log_record import TOPIC, partition_of

log = logging.getLogger("kpybroker.remote_log")

AGAIN_MS: Final = 1_000


class MetadataNodes(NamedTuple):
    """The other brokers, over connections for nothing else, since answers come in order and may take long."""

    polls: Nodes
    produces: Nodes


class _ReadPartition:
    """A partition of the topic that is read here, its writer, and its present source."""

    __slots__ = ("leader", "leader_epoch", "log", "view", "writer")

    def __init__(self, view: MetadataView, writer: MetadataWriter) -> None:
        self.view = view
        self.writer = writer
        self.leader = -1
        self.leader_epoch = -1
        self.log: LedMetadataLog | None = None
        """The source, if this node leads the partition."""


class RemoteLogMetadataTopic:
    """The door to the topic."""

    def __init__(
        self,
        node_id: int,
        scheduler: Scheduler,
        replicas: Replicas,
        nodes: MetadataNodes,
        send_to_controller: SendToController,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self.changed: list[Callable[[bytes, int], object]] = []
        """Called with the topic id and the number of a partition whose segments or deletion have changed, and of each
        needed one when it becomes ready."""
        self.ready: list[Callable[[int], object]] = []
        """Called with the number of a partition of the topic when it was read to its end."""
        self._node_id = node_id
        self._scheduler = scheduler
        self._replicas = replicas
        self._nodes = nodes
        self._settings: Callable[[], RemoteMetadataSettings] = lambda: remote_metadata_settings(config())
        self._prefix = str(config()[PREFIX])
        self._appends = MetadataAppends(node_id, scheduler, replicas, nodes.produces)
        self._creation = MetadataTopicCreation(scheduler, send_to_controller, self._settings)
        self._watch = ViewWatch(self._applied, self._is_read)
        self._image: MetadataImage | None = None
        self._topic: Topic | None = None
        """The topic, if it can be used."""
        self._partitions = 0
        """The number of partitions over which records are spread. More that are added later are not used."""
        self._needed: dict[PartitionKey, int] = {}
        """The partitions that are held here, and those of the topic that have their records; -1 without a topic."""
        self._refused_id = b""
        """The id of a topic that cannot be used, which is logged once."""
        self._early: list[tuple[Record, Done]] = []
        """Writes that wait for the topic."""
        self._read: dict[int, _ReadPartition] = {}
        self._feeds: dict[int, MetadataFeed] = {}
        self._to_place: dict[int, None] = {}
        self._is_placing = self._is_started = False

    # Its life

    def start(self) -> None:
        """Begin to read, and make the topic if it is needed."""
        self._is_started = True
        self._look()

    def stop(self) -> None:
        """Read and write nothing more. Writes that are not settled get no answer."""
        self._is_started = False
        self._creation.end()
        self._begin_anew()
        self._early.clear()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change, after the replicas did."""
        self._image = image
        before = self._topic
        topic = image.topics.get(TOPIC)
        if before is not None and (topic is None or topic.id != before.id):
            log.error("%s was deleted, and with it all that is known of what is in the store", TOPIC)
            self._begin_anew()
        if topic is None or self._topic is None:
            self._look()
            return
        self._topic = topic
        for index in delta.partitions.get(topic.id, ()):
            if index < self._partitions:
                self._place(index)
            else:
                log.error("%s-%d is not used: the topic has to keep its %d partitions", TOPIC, index, self._partitions)

    def _look(self) -> None:
        """Begin to use the topic, or have it made."""
        image = self._image
        if image is None or not self._is_started:
            return
        topic = image.topics.get(TOPIC)
        if topic is not None:
            self._creation.end()
            self._use(topic)
        elif self._needed or self._early:
            self._creation.begin(image)

    def _use(self, topic: Topic) -> None:
        found, configured = len(topic.partitions), self._settings().partitions
        if found != configured:
            if self._refused_id != topic.id:
                wanted = f"set {self._prefix}{PARTITIONS}={found} on all brokers"
                log.error("%s has %d partitions, not %d, so it is not used: %s", TOPIC, found, configured, wanted)
            self._refused_id = topic.id
            return
        self._topic, self._partitions = topic, found
        for key in self._needed:
            self._needed[key] = partition_of(*key, found)
        for index in {*self._needed.values(), *self._led(topic)}:
            self._place(index)
        early, self._early = self._early, []
        for record, done in early:
            self.write(record, done)

    def _led(self, topic: Topic) -> list[int]:
        return [index for index, each in topic.partitions.items() if each.leader == self._node_id]

    def _begin_anew(self) -> None:
        for each in self._read.values():
            self._leave(each)
            self._early += each.writer.stop()
        for feed in self._feeds.values():
            feed.stop()
        self._read.clear()
        self._feeds.clear()
        self._to_place.clear()
        self._topic, self._partitions = None, 0

    # Which partitions

    def need(self, topic_id: bytes, index: int) -> None:
        """This node holds a partition: what the store has of it must be known."""
        key = (topic_id, index)
        if key not in self._needed:
            place = self._needed[key] = partition_of(topic_id, index, self._partitions) if self._partitions else -1
            if place >= 0:
                self._place(place)
            else:
                self._look()

    def release(self, topic_id: bytes, index: int) -> None:
        """This node does not hold a partition any more."""
        place = self._needed.pop((topic_id, index), -1)
        if place >= 0:
            self._place(place)

    def _place(self, index: int) -> None:
        """See to it soon that a partition is read from its leader, or not at all."""
        self._to_place[index] = None
        if not self._is_placing:
            self._is_placing = True
            self._scheduler.call_soon(self._scheduler.in_pieces, self._placing())

    def _placing(self) -> Iterator[None]:
        try:
            while self._to_place:
                index = next(iter(self._to_place))
                del self._to_place[index]
                try:
                    self._place_now(index, is_needed=index in self._needed.values())
                except KafkaError as error:
                    log.debug("%s-%d is read later: %s", TOPIC, index, error)
                    self._scheduler.call_later(AGAIN_MS, self._place, index)
                except Exception:
                    log.exception("%s-%d is not read because of a defect", TOPIC, index)
                yield
        finally:
            self._is_placing = False

    def _place_now(self, index: int, *, is_needed: bool) -> None:
        topic = self._topic
        if topic is None:
            return
        partition = topic.partitions[index]
        each = self._read.get(index)
        if partition.leader != self._node_id and not is_needed and (each is None or each.writer.is_idle):
            if each is not None:
                self._leave(each)
                each.writer.stop()
                del self._read[index]
            return
        if each is None:
            each = self._read[index] = self._new(index)
        if (each.leader, each.leader_epoch) == (partition.leader, partition.leader_epoch):
            return
        replica = self._replicas.find(topic.id, index) if partition.leader == self._node_id else None
        self._leave(each)
        each.leader, each.leader_epoch = partition.leader, partition.leader_epoch
        if replica is not None:
            each.log = LedMetadataLog(each.view, replica, self._scheduler, self._replicas)
            each.log.check()
        elif partition.leader >= 0:
            self._feed(partition.leader).add(each.view)
        each.writer.leader_moved()

    def _new(self, index: int) -> _ReadPartition:
        view = MetadataView(index, self._watch)
        return _ReadPartition(view, MetadataWriter(view, self._scheduler, self._append))

    def _feed(self, leader_id: int) -> MetadataFeed:
        feed = self._feeds.get(leader_id)
        if feed is None:
            feed = MetadataFeed(leader_id, self._scheduler, self._nodes.polls, self._present)
            self._feeds[leader_id] = feed
        return feed

    def _leave(self, each: _ReadPartition) -> None:
        """Read a partition no longer from its present source."""
        each.view.reader = None
        if each.log is not None:
            each.log.stop()
            each.log = None
        feed = self._feeds.get(each.leader)
        if feed is not None:
            feed.remove(each.view.index)
            if not feed:
                feed.stop()
                del self._feeds[each.leader]

    def _present(self) -> Topic:
        assert self._topic is not None
        return self._topic

    # Questions

    def _metadata_of(self, topic_id: bytes, index: int) -> RemoteLogMetadata | None:
        place = self._needed.get((topic_id, index), -1)
        if place < 0 and self._partitions:
            place = partition_of(topic_id, index, self._partitions)
        each = self._read.get(place)
        return None if each is None else each.view.known

    def segments_of(self, topic_id: bytes, index: int) -> RemoteSegments | None:
        """The segments of a partition; None until the records about it were read (Kafka: ``isReady``).

        To be asked each time: a partition whose first record comes later has another object then."""
        known = self._metadata_of(topic_id, index)
        if known is None:
            return None
        found = known.segments_of(topic_id, index)
        return RemoteSegments(topic_id, "", index) if found is None else found

    def has_records_of(self, topic_id: bytes, index: int) -> bool:
        """Whether there are records about a partition, as far as they were read."""
        known = self._metadata_of(topic_id, index)
        return known is not None and known.segments_of(topic_id, index) is not None

    def catch_up(self, topic_id: bytes, index: int, done: Callable[[], object]) -> None:
        """Call ``done`` when all records about a needed partition are known here that are committed now: for a new
        leader, which decides by what a former one wrote."""
        each = self._read.get(self._needed.get((topic_id, index), -1))
        if each is not None:
            each.view.catch_up(lambda: _call(done))
        else:
            self._scheduler.call_later(AGAIN_MS, self._catch_up_later, topic_id, index, done)

    def _catch_up_later(self, topic_id: bytes, index: int, done: Callable[[], object]) -> None:
        if self._is_started and (topic_id, index) in self._needed:
            self.catch_up(topic_id, index, done)

    def deletion_of(self, topic_id: bytes, index: int) -> RemotePartitionDeleteState | None:
        """How far the deletion of a partition is; None if it has not begun, or is not known yet."""
        known = self._metadata_of(topic_id, index)
        return None if known is None else known.deletion_of(topic_id, index)

    def is_led_here(self, topic_id: bytes, index: int) -> bool:
        """Whether this node leads the partition of the topic with the records of a partition."""
        topic = self._topic
        if topic is None:
            return False
        return topic.partitions[partition_of(topic_id, index, self._partitions)].leader == self._node_id

    def led(self) -> Iterator[RemoteSegments]:
        """The segments of all partitions whose records are in a partition of the topic that this node leads and has
        read."""
        for known in self._known_of_led():
            yield from known.partitions()

    def led_deletions(self) -> Iterator[RemotePartitionDelete]:
        """The last record of each unfinished deletion in a partition of the topic that this node leads and has read."""
        for known in self._known_of_led():
            yield from known.unfinished_deletions()

    def _known_of_led(self) -> list[RemoteLogMetadata]:
        of_led = [each.view for each in self._read.values() if each.leader == self._node_id]
        return [view.known for view in of_led if view.known is not None and view.is_ready]

    # Writing

    def write(self, record: Record, done: Done) -> None:
        """Append a record. ``done(None)`` is called once it is committed and applied here, with a reason if it is not
        in the log. Where it is unknown whether it is, it is tried for as long as it takes; records about one partition
        keep their order."""
        if self._topic is None:
            self._early.append((record, done))
            self._look()
            return
        index = partition_of(*key_of(record), self._partitions)
        each = self._read.get(index)
        if each is None:
            each = self._read[index] = self._new(index)
        each.writer.write(record, done)
        if each.leader < 0:
            self._place(index)

    def write_together(self, records: tuple[Record, ...], done: Done) -> None:
        """Append records about one partition, all in one batch or none of them. ``done`` is called as by `write`, with
        a reason if one of them would change nothing."""
        each = self._read.get(partition_of(*key_of(records[0]), self._partitions)) if self._topic is not None else None
        if each is None:
            done("the partition of the metadata is not read")
        else:
            each.writer.write_together(records, done)

    def _append(self, index: int, batch: bytes, done: Callable[[int], object]) -> None:
        self._appends.append(self._present(), index, batch, done)

    # What was read

    def _applied(self, view: MetadataView, record: Record) -> None:
        self._read[view.index].writer.applied(record)
        self._tell_changed(*key_of(record))

    def _is_read(self, view: MetadataView) -> None:
        self._read[view.index].writer.wake()
        for callback in self.ready:
            _call(callback, view.index)
        keys = [key for key, place in self._needed.items() if place == view.index]
        self._scheduler.in_pieces(self._telling(keys))

    def _telling(self, keys: list[PartitionKey]) -> Iterator[None]:
        for key in keys:
            if key in self._needed:
                self._tell_changed(*key)
            yield

    def _tell_changed(self, topic_id: bytes, index: int) -> None:
        for callback in self.changed:
            _call(callback, topic_id, index)


def _call(callback: Callable[..., object], *arguments: object) -> None:
    try:
        callback(*arguments)
    except Exception:
        log.exception("A change in %s could not be handled because of a defect", TOPIC)
