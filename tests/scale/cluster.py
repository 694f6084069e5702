"""A cluster of controllers and thin brokers on virtual time, and what one broker makes of the metadata log."""

from collections import defaultdict
from pathlib import Path
from time import thread_time_ns
from typing import Any

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import MetadataLoader
from kpywire.batch import batch_headers
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.metadata_records import decode_record
from kpywire.record import read_batch

from .brokers import ThinBroker
from .controllers import CLUSTER_ID, ControllerNetwork
from .meter import Meter, MeteredScheduler

READER = 1
RACKS = 3
REPLICATION_FACTOR = 3
CATCH_UP_MS = 1_000
"""The time that the replicas of a broker that returned need to be in sync again."""
PARTITIONS_PER_REQUEST = 1_000
STEP_MS = 10


class Cluster:
    """Some controllers and many brokers in racks."""

    def __init__(self, folder: Path, nodes: int, voters: int = 1) -> None:
        self.meter = Meter()
        self.scheduler = MeteredScheduler(self.meter)
        self.controllers = ControllerNetwork(folder, self.scheduler, voters)
        self.brokers = {each: ThinBroker(self, each, f"rack-{each % RACKS}") for each in range(1, nodes + 1)}
        self.applied_ns = 0
        """The CPU time in which the reader decoded and applied records."""
        self._loader = MetadataLoader(MetadataImage(CLUSTER_ID))
        self._loader.subscribe(self._changed)
        self._out_of_sync: dict[int, dict[tuple[bytes, int], None]] = defaultdict(dict)
        """The partitions in whose in-sync set each broker is missing."""
        self._catching_up: set[int] = set()
        self._batches: list[tuple[Any, bytes]] = []

    @property
    def image(self) -> MetadataImage:
        """The image of the reader."""
        return self._loader.image

    @property
    def log_end(self) -> int:
        """The end of the metadata log of the active controller, 0 without one."""
        active = self.controllers.active
        return 0 if active is None else active.log.next_offset

    # Time.

    def until(self, is_so: Any, limit_ms: int = 600_000) -> int:
        """Let time pass until something holds. Returns the virtual time that it took."""
        began_ms = self.scheduler.now_ms()
        while not is_so():
            if self.scheduler.now_ms() - began_ms > limit_ms or self.controllers.failures:
                raise RuntimeError(f"{limit_ms} ms of virtual time were not enough: {self.controllers.failures}")
            self.scheduler.advance(STEP_MS)
        return self.scheduler.now_ms() - began_ms

    def until_all_know(self) -> int:
        """Let time pass until all brokers that run have read the log up to its present end."""
        end = self.log_end
        return self.until(lambda: all(each.committed_offset >= end for each in self.brokers.values() if each.is_up))

    def is_whole(self) -> bool:
        """Whether all brokers are unfenced, all partitions have all replicas in sync, and the reader knows it."""
        unfenced = all(broker.is_up and not broker.is_fenced for broker in self.brokers.values())
        return unfenced and not any(self._out_of_sync.values())

    # Life.

    def start_brokers(self) -> int:
        """Start all brokers at once. Returns the virtual time until they are unfenced."""
        for broker in self.brokers.values():
            broker.start()
        return self.until(lambda: all(not broker.is_fenced for broker in self.brokers.values()))

    def create_topics(self, partitions: int, per_topic: int, prefix: str = "topic") -> None:
        """Create topics until they have this number of partitions, a request after the other."""
        made = 0
        while made < partitions:
            topics = []
            while made < partitions and len(topics) * per_topic < PARTITIONS_PER_REQUEST:
                count = min(per_topic, partitions - made)
                topics.append(
                    CreatableTopic(
                        name=f"{prefix}-{made}",
                        num_partitions=count,
                        replication_factor=REPLICATION_FACTOR,
                        assignments=[],
                        configs=[],
                    )
                )
                made += count
            answers: list[Any] = []
            request = CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=False)
            self.controllers.send(request, answers.append)
            self.until(lambda answers=answers: answers)
            codes = {result.error_code for result in answers[0].topics}
            if codes != {0}:
                raise RuntimeError(f"Topics were not created: errors {codes}")

    # The reader.

    def has_read(self, broker: ThinBroker, records: bytes) -> None:
        """A broker has read records; if it is the reader it applies those that are committed."""
        if broker.id != READER:
            return
        began_ns = thread_time_ns()
        self._batches += [(header, records[at : at + header.size]) for at, header in batch_headers(records)]
        end = self.image.next_offset
        while self._batches and self._batches[0][0].next_offset <= broker.high_watermark:
            header, batch = self._batches.pop(0)
            found = (
                [] if header.is_control else [decode_record(each.value or b"") for each in read_batch(batch, header)]
            )
            self._loader.load(found, header.base_offset, header.partition_leader_epoch)
            end = header.next_offset
        self._loader.publish(end)
        self.applied_ns += thread_time_ns() - began_ns

    def _changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        for topic_id, partitions in delta.partitions.items():
            topic = image.topics_by_id[topic_id]
            for index, before in partitions.items():
                partition = topic.partitions[index]
                for replica in (
                    partition.replicas if before is not None or partition.isr is not partition.replicas else ()
                ):
                    if replica in partition.isr:
                        self._out_of_sync[replica].pop((topic_id, index), None)
                    else:
                        self._out_of_sync[replica][topic_id, index] = None
        for broker_id in delta.brokers:
            if broker_id not in self._catching_up and self._may_lead(broker_id):
                self._catching_up.add(broker_id)
                self._look_later(broker_id)

    def _may_lead(self, broker_id: int) -> bool:
        known = self.image.brokers.get(broker_id)
        return known is not None and known.is_active

    def _look_later(self, broker_id: int) -> None:
        self.scheduler.call_later(CATCH_UP_MS, self.meter.brokers(self._caught_up), broker_id)

    def _caught_up(self, broker_id: int) -> None:
        """The leaders take a broker back into the in-sync sets of its partitions, and try again until it is in all."""
        if not self._out_of_sync[broker_id] or not self._may_lead(broker_id):
            self._catching_up.discard(broker_id)
            return
        self._look_later(broker_id)
        by_leader: dict[int, list[tuple[bytes, int]]] = {}
        for topic_id, index in self._out_of_sync[broker_id]:
            leader = self.image.topics_by_id[topic_id].partitions[index].leader
            by_leader.setdefault(leader, []).append((topic_id, index))
        for leader, partitions in by_leader.items():
            if leader in self.brokers and self.brokers[leader].is_up:
                self.brokers[leader].take_back(self.brokers[broker_id], partitions)
