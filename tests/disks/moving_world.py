"""A partition that moves between two directories of a disk that may die at any call, while it is written.

The model knows every batch that was handed over and how much of it was promised to last. The metadata are those of a
controller that never loses anything; where a replica lies it notes a while after the news.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from crash_world import Model, check_derived, check_kept
from crashing import blank_disk
from log_making import append, headers_of, make_batch, make_marker

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import effective
from kpybroker.hosts.replicas.assignments import Assignments
from kpybroker.hosts.replicas.directories import Directories, IdentifiedDirectory
from kpybroker.hosts.replicas.moves import Moves
from kpybroker.hosts.replicas.neighbours import Neighbours
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.partition.in_sync import Rules
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire import error_codes
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsResponse
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from tests.replication.alone import NoFetchers

NODE = 1
TOPIC, TOPIC_ID = "t", bytes(range(16))
ONE, TWO = "/one", "/two"
IDS = {ONE: bytes(15) + b"\x71", TWO: bytes(15) + b"\x72"}
LEVEL = 21
CONFIGS = {
    "segment.bytes": "1048576",
    "retention.ms": "-1",
    "index.interval.bytes": "300",
    "segment.index.bytes": "200",
    "file.delete.delay.ms": "1000",
}
"""Segments are as short as their index."""


def topic_records(name: str, topic_id: bytes, paths: Sequence[str]) -> list[Any]:
    """A topic with a partition in each of these directories."""
    records: list[Any] = [TopicRecord(name=name, topic_id=topic_id)]
    records += [ConfigRecord(resource_type=2, resource_name=name, name=key, value=CONFIGS[key]) for key in CONFIGS]
    records += [
        PartitionRecord(
            topic_id=topic_id,
            partition_id=index,
            replicas=[NODE],
            isr=[NODE],
            removing_replicas=[],
            adding_replicas=[],
            leader=NODE,
            leader_epoch=0,
            partition_epoch=0,
            directories=[IDS[path]],
        )
        for index, path in enumerate(paths)
    ]
    return records


class Controller:
    """The metadata, which outlive every crash."""

    def __init__(self) -> None:
        self.image = MetadataImage("cluster")
        self.records: list[Any] = []
        self.rng = Random(3)

    def tell(self, replicas: Replicas | None, *records: Any) -> None:
        delta = MetadataDelta(self.image.next_offset)
        for record in records:
            self.image.apply(record, self.image.next_offset, delta)
            self.records.append(record)
        if replicas is not None:
            replicas.apply(self.image, delta)

    def everything(self) -> tuple[MetadataImage, MetadataDelta]:
        """For a node that starts: an image of its own, with all that ever happened as what changed."""
        image, delta = MetadataImage("cluster"), MetadataDelta(0)
        for record in self.records:
            image.apply(record, image.next_offset, delta)
        self.image = image
        return image, delta

    @property
    def exists(self) -> bool:
        return TOPIC in self.image.topics

    @property
    def assigned(self) -> bytes:
        return self.image.topics[TOPIC].partitions[0].directory_of(NODE)


class Life:
    """One life of the node, from its start on."""

    def __init__(
        self,
        disk: SimDisk,
        controller: Controller,
        *,
        paths: tuple[str, ...] = (ONE, TWO),
        scheduler: ManualScheduler | None = None,
        is_tiered: bool = False,
    ) -> None:
        self.controller = controller
        self.scheduler = ManualScheduler() if scheduler is None else scheduler
        self.halted: list[str] = []
        self.logged: list[str] = []
        config = BrokerConfig.load(None, {})
        opened = []
        for path in paths:
            directory = LogDirectory(path, disk, controller.rng, self.logged.append, LogConfig(is_tiered=is_tiered))
            directory.open(self.scheduler.now_ms())
            for _ in directory.recover():
                pass
            opened.append(IdentifiedDirectory(directory, IDS[path]))
        unusable = [path for path in (ONE, TWO) if path not in paths]
        self.directories = Directories(opened, self.scheduler, self.halted.append, unusable)
        assignments = Assignments(self.scheduler, self._controller_asked, NODE, lambda: 1)
        self.moves = Moves(NODE, self.directories, self.scheduler, assignments, lambda: config)
        self.replicas = Replicas(
            NODE,
            self.directories,
            self.scheduler,
            lambda given: effective(given, config),
            Rules(30_000),
            Neighbours(assignments, self.moves, NoFetchers()),
        )

    def begin(self) -> None:
        """Read the metadata, and lead in a new epoch, as after every registration."""
        self.replicas.apply(*self.controller.everything())
        if self.controller.exists:
            self.controller.tell(self.replicas, PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=NODE))
        self.scheduler.run()

    def _controller_asked(self, request: Any, reply: Any) -> None:
        self.scheduler.call_later(20, self._note, request, reply)

    def _note(self, request: Any, reply: Any) -> None:
        for directory in request.directories:
            if self.controller.exists:
                change = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, directories=[directory.id])
                self.controller.tell(self.replicas, change)
        answer = AssignReplicasToDirsResponse(throttle_time_ms=0, error_code=error_codes.NONE, directories=[])
        self.scheduler.call_later(20, reply, answer)

    @property
    def log(self) -> Log:
        return self.replicas.find(TOPIC, 0).led().log

    def settle(self) -> None:
        """Let everything come to its end that is under way."""
        for _ in range(200):
            self.scheduler.advance(100)

    def close(self) -> None:
        self.moves.stop()
        self.scheduler.run()
        for directory in list(self.directories):
            directory.close()


class MovingWorld:
    """The workload; ``run`` goes on until the disk dies or the operations are over."""

    def __init__(self, seed: int, operations: int) -> None:
        self.rng = Random(seed)
        self.operations = operations
        self.disk = blank_disk(seed + 1, ONE, TWO)
        self.model = Model()
        self.deleted_below = 0
        """The offset below which DeleteRecords has promised never to show anything again."""
        self.controller = Controller()
        self.life: Life
        self.moves = 0

    def run(self) -> None:
        self.controller.tell(
            None,
            FeatureLevelRecord(name="metadata.version", feature_level=LEVEL),
            *topic_records(TOPIC, TOPIC_ID, [ONE]),
        )
        self.life = self.new_life()
        self.life.begin()
        for _ in range(self.operations):
            self._one(self.life)
        self.life.settle()

    def new_life(self) -> Life:
        """The life in which all of it happens."""
        return self.life_on(self.disk)

    def life_on(self, disk: SimDisk) -> Life:
        """A life that begins with what is on a disk."""
        return Life(disk, self.controller)

    def _one(self, life: Life) -> None:
        model, log, choice = self.model, self.life.log, self.rng.random()
        if choice < 0.6:
            self.append(life)
        elif choice < 0.7:
            end = log.end.offset
            log.flush()
            model.promised_end = max(model.promised_end, end)
        elif choice < 0.75:
            for directory in life.directories:
                directory.write_checkpoint(names.RECOVERY_POINTS, directory.render_recovery_points())
                directory.noted()
        elif choice < 0.8:
            start = model.log_start = self.rng.randint(log.log_start_offset, log.end.offset)
            log.advance_log_start(start)
            log.delete_old_segments(life.scheduler.now_ms(), log.end.offset)
            log.directory.write_checkpoint(names.LOG_STARTS, log.directory.render_log_starts())
            self.deleted_below = start
        elif choice < 0.9:
            self.moves += 1
            life.moves.move(life.replicas, TOPIC, 0, self.rng.choice([ONE, TWO]))
        life.scheduler.advance(self.rng.choice([0, 1, 30, 200]))

    def append(self, life: Life) -> None:
        """Write a batch as a producer would."""
        model, leader, rng = self.model, life.replicas.find(TOPIC, 0).led(), self.rng
        offset, epoch = leader.log.end.offset, leader.epoch
        producer, count = rng.choice([-1, -1, 1, 2]), rng.randint(1, 4)
        if producer in model.open_transactions and rng.random() < 0.4:
            data = make_marker(offset, producer, commit=rng.random() < 0.5, leader_epoch=epoch)
            model.open_transactions.discard(producer)
        else:
            data = make_batch(
                offset,
                count,
                value_bytes=rng.randint(10, 200),
                leader_epoch=epoch,
                producer_id=producer,
                base_sequence=model.sequences.get(producer, 0),
                transactional=producer > 1,
            )
            model.sequences[producer] = model.sequences.get(producer, 0) + count
            if producer > 1:
                model.open_transactions.add(producer)
        model.handed_over.setdefault(offset, set()).add(data)
        append(leader.log, data)
        leader.advance_high_watermark()
        model.current.append((offset, data))
        model.acknowledged_end = leader.log.end.offset

    # What must be true of what is left

    def check(self, disk: SimDisk, kept_end: int) -> None:
        """Start on what is left of the disk: one log, whole; what was moving moves on; and again after a clean stop."""
        life = self.life_on(disk)
        life.begin()
        self._check_log(life.log, kept_end)
        self._go_on(life)
        life.settle()
        self._check_log(life.log, life.log.end.offset)
        kept = life.log.end.offset
        self._check_directories(disk)
        assert self.controller.assigned == IDS[life.log.directory.path]
        assert all(len(headers_of(data)) == 1 for _, data in self.model.current)
        life.close()
        again = self.life_on(disk)
        again.begin()
        self._check_log(again.log, kept)
        assert again.log.end.offset == kept

    def _go_on(self, life: Life) -> None:
        """Write a batch of the new epoch where the log ends now."""
        end = life.log.end.offset
        self.model.current = [(at, data) for at, data in self.model.current if headers_of(data)[0].next_offset <= end]
        self.model.sequences, self.model.open_transactions = {}, set()
        offset, epoch = end, life.replicas.find(TOPIC, 0).led().epoch
        data = make_batch(offset, 2, leader_epoch=epoch)
        self.model.handed_over.setdefault(offset, set()).add(data)
        append(life.log, data)
        self.model.current.append((offset, data))

    def _check_log(self, log: Log, kept_end: int) -> None:
        assert log.log_start_offset >= min(self.deleted_below, log.end.offset)
        check_kept(self.model, log, kept_end)
        check_derived(log)

    def _check_directories(self, disk: SimDisk) -> None:
        found = [(path, name) for path in (ONE, TWO) for name in disk.list_directory(path) if name.startswith("t-0")]
        assert len([name for _, name in found if name == "t-0"]) == 1, found
        assert not [name for _, name in found if name.endswith((names.FUTURE_DIRECTORY, names.DELETE_DIRECTORY))], found


def deleted(controller: Controller, replicas: Replicas) -> None:
    """Delete the topic."""
    controller.tell(replicas, RemoveTopicRecord(topic_id=TOPIC_ID))
