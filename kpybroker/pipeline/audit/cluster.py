"""A running cluster of any Kafka as a source of an audit: each replica is asked as a consumer asks, by Fetch.

A leader answers up to its high watermark; a follower up to the one that it has heard of. Only what a consumer may see
is read, so indexes and other files are not part of it.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, ClientSettings, Spot
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType, describe
from kpybroker.client.connection import Unreachable
from kpybroker.client.sources import source_of
from kpybroker.machines.audit.findings import BYTES, DAMAGE, EPOCHS, NOTE, AuditFinding, BytePlace
from kpybroker.machines.audit.sources import METADATA_TOPIC, AuditedReplica, AuditOutcome, AuditTask, ReplicaFacts
from kpybroker.machines.audit.stretch import Stretch
from kpybroker.machines.audit.walk import AuditWalk, Of, Status
from kpybroker.machines.audit.windows import WINDOW_OFFSETS
from kpybroker.machines.errors import KafkaError
from kpystorage.checking.walking import SegmentPiece, pieces
from kpystorage.reading import StoredBatch
from kpywire import error_codes
from kpywire.batch import HEADER_BYTES, batch_headers, check_crc, parse_header
from kpywire.errors import Malformed
from kpywire.messages.describe_log_dirs import DescribeLogDirsRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.messages.metadata import MetadataResponsePartition
from kpywire.uuid import ZERO_UUID, to_string

FETCH_BYTES: Final = 8 << 20
MAX_WAIT_MS: Final = 500
PATIENCE_S: Final = 10.0
"""The time that a follower gets to hear of the high watermark."""
TASK_OFFSETS: Final = 32 * WINDOW_OFFSETS
WITH_NAMES: Final = 12
"""The last version of Fetch that names topics; later ones have their ids, which topics of old clusters lack."""
CLEANUP_POLICY: Final = "cleanup.policy"
_NOTHING = PartitionData(partition_index=0, error_code=0, high_watermark=-1, aborted_transactions=None, records=None)


class Cluster:
    """A running cluster. ``all_replicas``: the followers are asked too, and not only the leaders."""

    def __init__(
        self,
        servers: str,
        timeout_s: float = 30.0,
        settings: ClientSettings | None = None,
        *,
        all_replicas: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``properties``: those of Kafka's clients that all of this comes from, so that other processes can use it
        behind TLS and a login, too."""
        self.servers = servers
        self.timeout_s = timeout_s
        self.settings = settings or ClientSettings()
        self.all_replicas = all_replicas
        self.properties = properties
        self.processes = 0 if self.settings.protection is None or properties is not None else 1
        self._client: Client | None = None
        self._compacted: dict[str, bool] = {}

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> "Cluster":
        """The cluster that properties of Kafka's clients describe. Raises BadProperty."""
        source = source_of(properties)
        return cls(source.servers, source.timeout_s, source.settings, properties=dict(properties))

    def __reduce__(self) -> tuple[object, ...]:
        if self.properties is not None:
            return Cluster.of_properties, (self.properties,)
        return _cluster, (self.servers, self.timeout_s, self.settings, self.all_replicas)

    @property
    def client(self) -> Client:
        """The client of this process. Its connections are made when they are used."""
        if self._client is None:
            self._client = Client(self.servers, self.timeout_s, self.settings)
            self._client.nodes()
        return self._client

    # Replicas.

    def replicas(self, topics: Sequence[str]) -> list[AuditedReplica]:
        client = self.client
        found = [each for each in client.topics(topics or None) if each.name != METADATA_TOPIC and not each.error_code]
        alive = {node.node_id for node in client.nodes()}
        client.forget()
        led = [
            (Spot(topic.name or "", part.partition_index), part, topic.topic_id)
            for topic in found
            for part in topic.partitions
            if part.leader_id >= 0
        ]
        starts = client.list_offsets(dict.fromkeys((spot for spot, _, _ in led), EARLIEST_TIMESTAMP))
        ends = client.list_offsets(dict.fromkeys((spot for spot, _, _ in led), LATEST_TIMESTAMP))
        sizes = self._sizes(sorted(alive))
        return [
            AuditedReplica(
                f"broker {node_id}",
                *spot,
                node_id=node_id,
                topic_id=to_string(topic_id),
                start=starts[spot],
                end=ends[spot],
                log_end=ends[spot],
                high_watermark=ends[spot],
                size_bytes=sizes.get((node_id, spot), 0),
                is_running=True,
            )
            for spot, part, topic_id in sorted(led, key=lambda each: each[0])
            for node_id in self._asked(part)
            if node_id in alive
        ]

    def _asked(self, part: MetadataResponsePartition) -> list[int]:
        """The brokers to ask about a partition, the leader first."""
        others = sorted({*part.replica_nodes} - {part.leader_id}) if self.all_replicas else []
        return [part.leader_id, *others]

    def _sizes(self, nodes: Iterable[int]) -> dict[tuple[int, Spot], int]:
        """The sizes of logs, as far as brokers tell them: only the progress depends on it."""
        sizes = {}
        for node_id in nodes:
            with suppress(KafkaError, Unreachable):
                for directory in self.client.call_node(node_id, DescribeLogDirsRequest(topics=None)).results:
                    for topic in directory.topics:
                        for part in topic.partitions:
                            sizes[node_id, Spot(topic.name, part.partition_index)] = part.partition_size
        return sizes

    def facts(self, replica: AuditedReplica) -> ReplicaFacts:
        spot = Spot(*replica.spot)
        log_start = self.client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
        return ReplicaFacts(log_start, replica.end if self._is_compacted(replica.topic) else 0)

    def _is_compacted(self, topic: str) -> bool:
        """Whether a topic is compacted, so that any of its offsets may be missing."""
        if topic not in self._compacted:
            entries = describe(self.client, ConfigResource(ConfigResourceType.TOPIC, topic))
            self._compacted[topic] = any(e.name == CLEANUP_POLICY and "compact" in (e.value or "") for e in entries)
        return self._compacted[topic]

    def identities(self, _replica: AuditedReplica) -> Mapping[int, tuple[int, ...]]:
        return {}

    def check_around(self, replica: AuditedReplica, whole: Stretch, _start: int) -> Iterable[AuditFinding]:
        highest = -1
        for epoch, first, _ in whole.epochs:
            if epoch < highest:
                text = f"leader epoch {epoch} at offset {first} follows epoch {highest}"
                yield AuditFinding(DAMAGE, EPOCHS, *replica.spot, replica.label, "", -1, first, text)
            highest = max(highest, epoch)

    # Work.

    def tasks(self, replica: AuditedReplica, start: int, *, deep: bool) -> list[AuditTask]:
        tasks = []
        begin, end = max(start, replica.start), replica.end
        per_offset = replica.size_bytes / max(end - replica.start, 1)
        while begin < end:
            following = min((begin // TASK_OFFSETS + 1) * TASK_OFFSETS, end)
            size_bytes = int(per_offset * (following - begin))
            tasks.append(AuditTask(replica, begin, following, deep=deep, size_bytes=size_bytes))
            begin = following
        return tasks

    def read(self, task: AuditTask) -> AuditOutcome:
        replica = task.replica
        findings: list[AuditFinding] = []
        walk = AuditWalk(Of(replica.label, *replica.spot), findings.append, task.start, task.end, deep=task.deep)
        walk.expected = task.next_offset
        stretches = []
        is_read = True
        try:
            for end in [*(cut for cut in task.cuts if task.start < cut < task.end), task.end]:
                walk.end = end
                is_read &= self._walk(task, walk, max(task.start, walk.expected))
                stretches.append(walk.cut(end))
        except (KafkaError, Unreachable) as error:
            offset = max(walk.expected, task.start)
            walk.report(DAMAGE, BYTES, BytePlace(), offset, f"cannot be read from offset {offset} on: {error}")
            stretches.append(walk.cut(task.end))
            is_read = False
        return AuditOutcome(task, tuple(stretches), tuple(findings), is_read)

    def _walk(self, task: AuditTask, walk: AuditWalk, offset: int) -> bool:
        """Walk up to the end of the walk; whether it could be read. Raises KafkaError, Unreachable."""
        replica, length, since_s = task.replica, FETCH_BYTES, 0.0
        while offset < walk.end:
            answer = self._fetch(replica, offset, length)
            if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                offset, walk.expected = self._start_beyond(replica, offset), -1  # they were deleted meanwhile
                continue
            data = memoryview(answer.records or b"")
            data = data[_skipped(data, offset, task) :]
            if not data:
                since_s = since_s or time.monotonic()
                if time.monotonic() - since_s > PATIENCE_S:
                    text = (
                        f"gives no records from offset {offset} on, and its high watermark is {answer.high_watermark}"
                    )
                    walk.report(NOTE, BYTES, BytePlace(), offset, text)
                    return False
                continue
            since_s = 0.0
            taken, status = walk.feed(data, 0)
            if not taken and status is Status.MORE:
                if length < walk.wanted + HEADER_BYTES:
                    length = walk.wanted + FETCH_BYTES
                    continue
                taken, status = walk.feed(data, 0, is_all=True)
            if status is Status.DONE:
                return True
            if status is Status.ODD and not _past_damage(walk, data[taken:]):
                return False
            offset = max(walk.expected, offset)
        return True

    def _start_beyond(self, replica: AuditedReplica, offset: int) -> int:
        """The log's start, which has moved beyond an offset. KafkaError if it has not."""
        spot = Spot(*replica.spot)
        start = self.client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
        if start <= offset:
            code = error_codes.OFFSET_OUT_OF_RANGE
            raise KafkaError(code, f"partition {spot} has no offset {offset}, its first is {start}")
        return start

    def batches(self, replica: AuditedReplica, start: int, end: int) -> Iterator[tuple[BytePlace, StoredBatch]]:
        offset = max(start, replica.start)
        while offset < end:
            answer = self._fetch(replica, offset, FETCH_BYTES)
            if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                offset = self._start_beyond(replica, offset)
                continue
            data = memoryview(answer.records or b"")
            before = offset
            for position, header in batch_headers(data):
                if header.base_offset >= end:
                    return
                if header.next_offset > offset:
                    if check_crc(data, header, position):
                        yield BytePlace(), StoredBatch(header, data[position : position + header.size])
                    offset = header.next_offset
            if offset == before:
                return

    def _fetch(self, replica: AuditedReplica, offset: int, length: int) -> PartitionData:
        """One answer about one partition. Raises KafkaError, Unreachable; an offset out of range is returned."""
        client = self.client

        def attempt() -> PartitionData:
            topic_id = client.topic(replica.topic).topic_id
            part = FetchPartition(partition=replica.partition, fetch_offset=offset, partition_max_bytes=length)
            request = FetchRequest(
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=length,
                isolation_level=0,
                topics=[FetchTopic(topic=replica.topic, topic_id=topic_id, partitions=[part])],
                rack_id="",
            )
            newest = WITH_NAMES if topic_id == ZERO_UUID else None
            response = client.call_node(replica.node_id, request, wait_s=MAX_WAIT_MS / 1000, newest=newest)
            code = response.error_code
            found: PartitionData = response.responses[0].partitions[0] if response.responses else _NOTHING
            code = code or found.error_code
            if code and code != error_codes.OFFSET_OUT_OF_RANGE:
                raise KafkaError(code, f"partition {replica.topic}-{replica.partition}: {error_codes.message(code)}")
            return found

        return client.retrying(attempt)


def _cluster(servers: str, timeout_s: float, settings: ClientSettings, all_replicas: bool) -> Cluster:  # noqa: FBT001
    return Cluster(servers, timeout_s, settings, all_replicas=all_replicas)


def _skipped(data: memoryview, offset: int, task: AuditTask) -> int:
    """The bytes of batches that lie before the offset, or begin before the task and belong to another one."""
    skipped = 0
    try:
        for position, header in batch_headers(data):
            is_others = header.base_offset < task.start and task.start != task.replica.start
            if header.next_offset > offset and not is_others:
                return position
            skipped = position + header.size
    except Malformed:
        return 0
    return skipped


class _Bytes:
    """Bytes as a file."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def pread(self, length: int, position: int) -> bytes:
        return bytes(self._data[position : position + length])


def _past_damage(walk: AuditWalk, data: memoryview) -> bool:
    """Step over a batch that is not valid. False if what follows it cannot be found."""
    piece: SegmentPiece = next(pieces(_Bytes(data), len(data), max(walk.expected, 0)))
    header = piece.header
    if header is None and len(data) >= HEADER_BYTES:
        text = "bytes that are no batch; what follows them cannot be asked for"
        walk.skip_damaged(None, piece.end, text, BytePlace())
        return False
    walk.skip_damaged(header, piece.end, f"a batch is damaged: {piece.trouble}", BytePlace())
    return header is not None and parse_header(data).next_offset > walk.expected - 1
