"""Thin brokers: they register, send heartbeats, fetch the metadata log and ask for changes of in-sync sets. No logs.

Each one keeps the offset that it has read and a checksum of the bytes. One broker, the reader, decodes the records
into an image as a real broker does, and the others find in that image what they lead.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kpybroker.machines.metadata import features
from kpybroker.machines.raft.messages import Fetch, FetchSnapshot, FetchSnapshotResponse, OffsetAndEpoch, ReplicaKey
from kpybroker.machines.raft.timing import DEFAULT_TIMING
from kpybroker.machines.raft.wire_form import response_from_wire, to_wire
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

from .controllers import CLUSTER_ID

if TYPE_CHECKING:
    from .cluster import Cluster

HEARTBEAT_MS = 2_000
FETCH_WAIT_MS = 500
RETRY_MS = 100
FETCH_BYTES, SNAPSHOT_BYTES = DEFAULT_TIMING.fetch_max_bytes, DEFAULT_TIMING.fetch_snapshot_max_bytes


class ThinBroker:
    """One broker; `start` begins an incarnation."""

    def __init__(self, cluster: "Cluster", broker_id: int, rack: str) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.rack = rack
        self.directory_id = (0xB0 << 120 | broker_id).to_bytes(16, "big")
        self.incarnation = 0
        self.is_up = self.is_fenced = False
        self.epoch = -1
        self.offset = 0
        """Everything below this offset of the metadata log has been read."""
        self.high_watermark = -1
        self.last_epoch = 0
        self.leader_epoch = 1
        self.checksum = 0
        self.wants_shut_down = False
        self.snapshot: OffsetAndEpoch | None = None
        self._position = 0

    def start(self) -> None:
        """A process begins, with the metadata log that was read before."""
        self.incarnation += 1
        self.is_up, self.is_fenced, self.wants_shut_down, self.epoch = True, True, False, -1
        self._register()
        self._fetch()

    def end(self) -> None:
        """The process ends."""
        self.is_up = False
        self.incarnation += 1

    @property
    def committed_offset(self) -> int:
        """The end of the records that it has read and knows to be committed."""
        return min(self.offset, self.high_watermark)

    def _send(self, request: Any, answered: Callable[[Any], object]) -> None:
        incarnation = self.incarnation

        def now(response: Any) -> None:
            if incarnation == self.incarnation:
                answered(response)

        self.cluster.controllers.send(request, now)

    def _later(self, delay_ms: int, callback: Callable[[], object]) -> None:
        incarnation = self.incarnation

        def now() -> None:
            if incarnation == self.incarnation:
                callback()

        self.cluster.scheduler.call_later(delay_ms, self.cluster.meter.brokers(now))

    def _register(self) -> None:
        supported = [
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in features.SUPPORTED.items()
        ]
        request = BrokerRegistrationRequest(
            broker_id=self.id,
            cluster_id=CLUSTER_ID,
            incarnation_id=(self.incarnation << 32 | self.id).to_bytes(16, "big"),
            listeners=[Listener(name="PLAINTEXT", host=f"broker-{self.id}", port=9092, security_protocol=0)],
            features=supported,
            rack=self.rack,
            log_dirs=[self.directory_id],
        )
        self._send(request, self._registered)

    def _registered(self, response: Any) -> None:
        if response is None or response.error_code != error_codes.NONE:
            self._later(RETRY_MS, self._register)
            return
        self.epoch = response.broker_epoch
        self._beat()

    def _beat(self) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.committed_offset - 1,
            want_fence=False,
            want_shut_down=self.wants_shut_down,
        )
        self._send(request, self._beaten)

    def _beaten(self, response: Any) -> None:
        if response is None or response.error_code != error_codes.NONE:
            self._later(RETRY_MS, self._beat)
            return
        self.is_fenced = response.is_fenced
        if response.should_shut_down:
            self.end()
        else:
            self._later(RETRY_MS if self.is_fenced or self.wants_shut_down else HEARTBEAT_MS, self._beat)

    # The metadata log.

    def _fetch(self) -> None:
        key = ReplicaKey(self.id, self.directory_id)
        fetch = Fetch(
            self.leader_epoch, key, self.offset, self.last_epoch, self.high_watermark, FETCH_WAIT_MS, FETCH_BYTES
        )
        self._send(to_wire(fetch, CLUSTER_ID, ()), self._fetched)

    def _fetched(self, message: Any) -> None:
        if message is None:
            self._later(RETRY_MS, self._fetch)
            return
        response, records = response_from_wire(message)
        self.leader_epoch = max(response.known.epoch, self.leader_epoch)
        if response.known.error_code != error_codes.NONE:
            self._later(RETRY_MS, self._fetch)
        elif response.snapshot is not None:  # type: ignore[union-attr]
            self.snapshot, self._position = response.snapshot, 0  # type: ignore[union-attr]
            self._fetch_snapshot()
        else:
            self._take(records)
            self.high_watermark = max(response.high_watermark, self.high_watermark)  # type: ignore[union-attr]
            self.cluster.has_read(self, records)
            self._fetch()

    def _take(self, records: bytes) -> None:
        for _, header in batch_headers(records):
            self.offset, self.last_epoch = header.next_offset, header.partition_leader_epoch
        self.checksum = crc32(records, self.checksum)

    def _fetch_snapshot(self) -> None:
        assert self.snapshot is not None
        key = ReplicaKey(self.id, self.directory_id)
        asked = FetchSnapshot(self.leader_epoch, key, self.snapshot, self._position, SNAPSHOT_BYTES)
        self._send(to_wire(asked, CLUSTER_ID, ()), self._fetched_snapshot)

    def _fetched_snapshot(self, message: Any) -> None:
        response = None if message is None else response_from_wire(message)[0]
        if not isinstance(response, FetchSnapshotResponse) or response.known.error_code != error_codes.NONE:
            self._later(RETRY_MS, self._fetch)
            return
        self._position += len(response.data)
        self.checksum = crc32(response.data, self.checksum)
        if self._position < response.size_bytes:
            self._fetch_snapshot()
        else:
            assert self.snapshot is not None
            self.offset, self.last_epoch = self.snapshot
            self._fetch()

    # In-sync sets.

    def take_back(self, returned: "ThinBroker", partitions: list[tuple[bytes, int]]) -> None:
        """Ask that a broker that has caught up joins the in-sync sets of partitions that this one leads."""
        topics: dict[bytes, list[AlterPartitionRequestPartitionData]] = {}
        for topic_id, index in partitions:
            partition = self.cluster.image.topics_by_id[topic_id].partitions[index]
            if partition.leader != self.id or returned.id in partition.isr:
                continue
            isr = [self.cluster.brokers[each] for each in (*partition.isr, returned.id)]
            topics.setdefault(topic_id, []).append(
                AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=partition.leader_epoch,
                    partition_epoch=partition.partition_epoch,
                    new_isr_with_epochs=[BrokerState(broker_id=each.id, broker_epoch=each.epoch) for each in isr],
                    leader_recovery_state=partition.leader_recovery_state,
                )
            )
        if topics:
            request = AlterPartitionRequest(
                broker_id=self.id,
                broker_epoch=self.epoch,
                topics=[
                    AlterPartitionRequestTopicData(topic_id=topic_id, partitions=asked)
                    for topic_id, asked in topics.items()
                ],
            )
            self._send(request, lambda _response: None)
