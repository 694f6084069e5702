"""A disk with logs of any size that hold no bytes: each batch is made when it is read.

The directories of a `Fleet` have one more topic here, ``vast``, with a partition for each broker and segments of 1 GiB.
Its batches are 1 MiB long and differ in their offsets only, which no checksum covers. Faults are planted by place.
"""

from functools import cached_property
from struct import Struct
from typing import Any, NamedTuple

from fleet import BROKERS
from log_making import NOW_MS, TOPIC_ID

from kpystorage import checkpoint, names, partition_metadata
from kpystorage.disk import FileStatus
from kpystorage.memory_disk import MemoryDisk
from kpywire.record import Record, build_batch

TOPIC = "vast"
BATCH_BYTES = 1 << 20
SEGMENT_BATCHES = 1 << 10
RECORDS = 1000
SEGMENT_OFFSETS = SEGMENT_BATCHES * RECORDS
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
CHECKPOINTS = (names.HIGH_WATERMARKS, names.RECOVERY_POINTS)


class Fault(NamedTuple):
    """A change of one batch of one replica: ``flip`` a bit, ``lose`` it, or let it ``differ`` with a valid checksum."""

    kind: str
    broker: int
    partition: int
    batch: int
    bit: int = 0

    @property
    def offset(self) -> int:
        return self.batch * RECORDS


def _template(value: bytes) -> bytes:
    """A batch of exactly 1 MiB."""
    records = [Record(timestamp=NOW_MS, value=value * 1024) for _ in range(RECORDS - 1)]
    size = len(build_batch([*records, Record(timestamp=NOW_MS, value=b"")]))
    rest = BATCH_BYTES - size
    while True:
        batch = build_batch([*records, Record(timestamp=NOW_MS, value=value * rest)], partition_leader_epoch=0)
        if len(batch) == BATCH_BYTES:
            return batch
        rest -= len(batch) - BATCH_BYTES


class VastDisk:
    """The disk of a fleet, with ``segments`` segments in each partition of the vast topic."""

    def __init__(self, disk: MemoryDisk, segments: int, faults: tuple[Fault, ...] = ()) -> None:
        self.disk = disk
        self.segments = segments
        self.faults = faults

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return VastDisk, (self.disk, self.segments, self.faults)

    @cached_property
    def templates(self) -> tuple[bytes, bytes]:
        """The usual batch, and one with another value."""
        return _template(b"v"), _template(b"w")

    @property
    def size_bytes(self) -> int:
        """The bytes of all replicas of the topic."""
        return self.segments * SEGMENT_BATCHES * BATCH_BYTES * len(BROKERS) ** 2

    def batches(self, broker: int, partition: int, segment: int) -> list[int]:
        """The numbers of the batches in a segment, where one may be lost."""
        first = segment * SEGMENT_BATCHES
        lost = {f.batch for f in self.faults if f[:3] == ("lose", broker, partition)}
        return [number for number in range(first, first + SEGMENT_BATCHES) if number not in lost]

    # The protocol of a disk, for reading.

    def _place(self, path: str) -> tuple[int, int, str] | None:
        """(broker, partition, name) of a path in the vast topic."""
        _, broker, *rest = path.split("/")
        if not rest or not rest[0].startswith(f"{TOPIC}-"):
            return None
        return int(broker.rpartition("-")[2]), int(rest[0].rpartition("-")[2]), rest[1] if len(rest) > 1 else ""

    def list_directory(self, path: str) -> list[str]:
        if self._place(path) is None:
            more = [f"{TOPIC}-{number}" for number in range(len(BROKERS))] if path.count("/") == 1 else []
            return [*self.disk.list_directory(path), *more]
        suffixes = (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX)
        bases = [number * SEGMENT_OFFSETS for number in range(self.segments)]
        files = [names.segment_file(base, suffix) for base in bases for suffix in suffixes]
        return [*files, names.LEADER_EPOCHS, names.PARTITION_METADATA]

    def status(self, path: str) -> FileStatus | None:
        place = self._place(path)
        if place is None:
            return self.disk.status(path)
        if not place[2]:
            return FileStatus(0, 0, 1, 1, is_directory=True)
        parsed = names.parse_segment_file(place[2])
        if place[2] not in self.list_directory(path.rpartition("/")[0]):
            return None
        is_log = parsed is not None and parsed[1] == names.LOG
        return FileStatus(self.file(path).size() if is_log else 0, 1, 1, 1, is_directory=False)

    def read(self, path: str) -> bytes:
        place = self._place(path)
        if place is None:
            name = path.rpartition("/")[2]
            data = self.disk.read(path)
            if name not in CHECKPOINTS:
                return data
            ends = {(TOPIC, number): self.segments * SEGMENT_OFFSETS for number in range(len(BROKERS))}
            return checkpoint.render_offsets({**checkpoint.parse_offsets(data, path), **ends})
        broker, partition, name = place
        if name == names.LEADER_EPOCHS:
            return checkpoint.render_epochs([(0, 0)])
        if name == names.PARTITION_METADATA:
            return partition_metadata.render(TOPIC_ID)
        parsed = names.parse_segment_file(name)
        if parsed is None or parsed[1] not in (names.OFFSET_INDEX, names.TIME_INDEX):
            raise FileNotFoundError(path)
        numbers = self.batches(broker, partition, parsed[0] // SEGMENT_OFFSETS)
        ends = [number * RECORDS + RECORDS - 1 - parsed[0] for number in numbers]
        if parsed[1] == names.TIME_INDEX:
            return _TIME_ENTRY.pack(NOW_MS, ends[0])
        return b"".join(_OFFSET_ENTRY.pack(end, index * BATCH_BYTES) for index, end in enumerate(ends))

    def file(self, path: str) -> Any:
        place = self._place(path)
        return self.disk.file(path) if place is None else VastFile(self, path, place[0], place[1])


class VastFile:
    """A segment, which is its own descriptor, or a file that is read as a whole."""

    def __init__(self, disk: VastDisk, path: str, broker: int, partition: int) -> None:
        self.path = path
        self._disk = disk
        base = int(path.rpartition("/")[2].partition(".")[0])
        self._numbers = disk.batches(broker, partition, base // SEGMENT_OFFSETS) if path.endswith(names.LOG) else []
        planted = [fault for fault in disk.faults if fault[1:3] == (broker, partition)]
        self._faults = {fault.batch: fault for fault in planted}

    def descriptor(self) -> "VastFile":
        return self

    def release(self) -> None:
        """There is nothing to give back."""

    def size(self) -> int:
        if not self.path.endswith(names.LOG):
            return len(self._disk.read(self.path))
        return len(self._numbers) * BATCH_BYTES

    def pread(self, length: int, position: int) -> bytes:
        if not self.path.endswith(names.LOG):
            return self._disk.read(self.path)[position : position + length]
        end = min(position + length, self.size())
        parts = []
        while position < end:
            index, start = divmod(position, BATCH_BYTES)
            stop = min(BATCH_BYTES, start + end - position)
            parts.append(self._batch(self._numbers[index], start, stop))
            position += stop - start
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _batch(self, number: int, start: int, stop: int) -> bytes:
        fault = self._faults.get(number)
        usual, other = self._disk.templates
        template = other if fault is not None and fault.kind == "differ" else usual
        offset = (number * RECORDS).to_bytes(8, "big")
        if fault is not None and fault.kind == "flip":
            data = bytearray(offset + template[8:])
            data[fault.bit // 8] ^= 1 << fault.bit % 8
            return bytes(data[start:stop])
        if start >= 8:
            return template[start:stop]
        return b"".join((offset[start:stop], memoryview(template)[8:stop]))


def planted(kind: str, rng: Any, segments: int, taken: list[Fault]) -> Fault:
    """A fault at a random place that no other one has."""
    while True:
        batch = rng.randrange(segments * SEGMENT_BATCHES - 1)
        bit = rng.randrange(21 * 8, BATCH_BYTES * 8)
        fault = Fault(kind, rng.choice(BROKERS), rng.randrange(len(BROKERS)), batch, bit)
        if all(fault[2:4] != each[2:4] for each in taken):
            return fault
