"""The progress log of this cluster's mirrors: a topic with one partition, read and written over the brokers' network.

Records are written in order, at least once: a batch whose fate is unknown is sent again. Only what all replicas in
sync have is read, so a conclusion is never taken back. Its beginning is deleted from time to time, after all that
follows from it was written again.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.mirror.progress import TOPIC
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.errors import Malformed
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch, read_batch

log = logging.getLogger("kpybroker.mirror")

CONFIGS: Final = {
    "cleanup.policy": "delete",
    "max.message.bytes": str(16 << 20),
    "retention.bytes": "-1",
    "retention.ms": "-1",
    "segment.bytes": str(32 << 20),
}
TIMEOUT_MS: Final = 30_000
ALL_IN_SYNC: Final = -1
CONSUMER: Final = -1
EARLIEST: Final = -2
BATCH_BYTES: Final = 1 << 20
READ_BYTES: Final = 256 << 10
REST_EVERY: Final = 4_000
"""The records after which the beginning is deleted."""


class ProgressLog:
    """The reader and writer of one broker."""

    def __init__(
        self,
        parts: MirrorParts,
        taken: Callable[[bytes], object],
        lost: Callable[[], object],
        read: Callable[[], object],
    ) -> None:
        """``taken`` is called with each record in order, then ``read``; ``lost`` where the beginning was deleted before
        it was read: everything is read again."""
        self._parts = parts
        self._taken = taken
        self._lost = lost
        self._read = read
        self._position = 0
        self._is_fetching = self._is_writing = self._is_creating = False
        self._waiting: deque[bytes] = deque()
        self._unsure: bytes | None = None
        """The batch that was sent and not acknowledged."""
        self._read_since = 0
        self.is_current = False
        """Whether it was read to its end."""

    @property
    def is_idle(self) -> bool:
        """Whether all that was given has been written."""
        return self._unsure is None and not self._waiting

    def write(self, values: Iterable[bytes]) -> None:
        """Append records."""
        self._waiting += values
        topic = self._parts.image.topics.get(TOPIC)
        if topic is not None and topic.partitions[0].leader >= 0 and not self._is_writing and not self.is_idle:
            self._produce(topic.partitions[0].leader, topic.id)

    def look(self, *, creates: bool) -> None:
        """Read what is new, and write what waits. If it ``creates``, make the topic where it is missing."""
        topic = self._parts.image.topics.get(TOPIC)
        if topic is not None:
            leader = topic.partitions[0].leader
            if leader >= 0 and not self._is_fetching:
                self._fetch(leader, topic.id)
            self.write(())
        elif creates and not self._is_creating:
            self._create()

    def _create(self) -> None:
        self._is_creating = True
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=1,
            replication_factor=-1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in CONFIGS.items()],
        )

        def created(response: Any) -> None:
            self._is_creating = False
            for each in response.topics:
                if each.error_code not in (error_codes.NONE, error_codes.TOPIC_ALREADY_EXISTS):
                    log.debug("Topic %s cannot be created: %s", TOPIC, each.error_message)

        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=False)
        self._parts.ask_controller(request, created)

    # Reading

    def _fetch(self, leader: int, topic_id: bytes) -> None:
        partition = FetchPartition(partition=0, fetch_offset=self._position, partition_max_bytes=READ_BYTES)
        request = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=READ_BYTES,
            topics=[FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])],
        )
        self._is_fetching = True
        self._parts.nodes.send(leader, request, lambda response: self._fetched(leader, response))

    def _fetched(self, leader: int, response: Any) -> None:
        self._is_fetching = False
        if isinstance(response, NoResponse):
            return
        for topic in response.responses:
            for each in topic.partitions:
                if each.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                    self._begin_again(leader)
                elif each.error_code == error_codes.NONE:
                    self._is_fetching = True
                    self._parts.scheduler.in_pieces(self._take(each.records or b"", each.high_watermark))

    def _take(self, records: bytes | memoryview, high_watermark: int) -> Iterator[None]:
        """Take the records over, one at a time."""
        data = memoryview(records)
        try:
            for position, header in batch_headers(data):
                for record in read_batch(data, header, position):
                    if record.offset >= self._position:
                        self._read_since += 1
                        self._taken(record.value or b"")
                        yield
                self._position = max(self._position, header.next_offset)
        except Malformed as error:
            log.warning("A record of %s is not readable: %s", TOPIC, error)
        self._is_fetching = False
        self.is_current = self._position >= high_watermark
        self._read()

    def _begin_again(self, leader: int) -> None:
        self._is_fetching = True
        partition = ListOffsetsPartition(partition_index=0, timestamp=EARLIEST)
        request = ListOffsetsRequest(replica_id=CONSUMER, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])])
        self._parts.nodes.send(leader, request, self._found_start)

    def _found_start(self, response: Any) -> None:
        self._is_fetching = False
        if isinstance(response, NoResponse):
            return
        (found,) = response.topics[0].partitions
        if found.error_code == error_codes.NONE:
            self.is_current = False
            self._position = found.offset
            self._lost()

    # Writing

    def _produce(self, leader: int, topic_id: bytes) -> None:
        if self._unsure is None:
            now_ms, size = self._parts.scheduler.now_ms(), 0
            records: list[Record] = []
            while self._waiting and (not records or size + len(self._waiting[0]) < BATCH_BYTES):
                value = self._waiting.popleft()
                size += len(value)
                records.append(Record(timestamp=now_ms, value=value))
            self._unsure = build_batch(records)
        data = PartitionProduceData(index=0, records=self._unsure)
        request = ProduceRequest(
            transactional_id=None,
            acks=ALL_IN_SYNC,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=TOPIC, topic_id=topic_id, partition_data=[data])],
        )
        self._is_writing = True
        self._parts.nodes.send(leader, request, self._produced)

    def _produced(self, response: Any) -> None:
        self._is_writing = False
        if isinstance(response, NoResponse):
            return
        codes = [each.error_code for topic in response.responses for each in topic.partition_responses]
        if codes == [error_codes.NONE]:
            self._unsure = None
            self.look(creates=False)
        else:
            log.debug("Topic %s was not written: %s", TOPIC, [error_codes.name(code) for code in codes])

    # Its beginning

    def rest(self, records: Callable[[], Iterable[bytes]]) -> None:
        """Shorten a long log: write ``records``, from which all that was read follows, and delete that."""
        if self._read_since < REST_EVERY or not self.is_idle:
            return
        self._read_since = 0
        read_to = self._position
        self.write(records())
        self._parts.scheduler.call_later(TIMEOUT_MS, self._delete, read_to)

    def _delete(self, offset: int) -> None:
        topic = self._parts.image.topics.get(TOPIC)
        if topic is None or not self.is_idle:
            return
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name=TOPIC, partitions=[wanted])]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
        self._parts.nodes.send(topic.partitions[0].leader, request, lambda _response: None)
