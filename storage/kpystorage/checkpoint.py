"""Kafka's text checkpoints: a version line, a count line, a line per entry (CheckpointFile and its users).

``leader-epoch-checkpoint`` has ``epoch startOffset`` lines; the checkpoints of a log directory (recovery point, log
start, high watermark, cleaner) have ``topic partition offset`` lines.

Rendering is pure. :func:`write_atomically` may run in a thread: a reader finds the old file or the new one, whole.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpywire.varint import Buffer

VERSION: Final = 0
TEMPORARY: Final = ".tmp"

TopicPartition = tuple[str, int]


def render_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """A checkpoint of offsets by (topic, partition), in the order given."""
    lines = [f"{VERSION}\n{len(offsets)}\n"]
    lines += [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    return "".join(lines).encode()


def parse_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint. CorruptFile, naming ``path``, if the bytes are not a checkpoint."""
    offsets: dict[TopicPartition, int] = {}
    for line in _entries(data, path):
        fields = line.split(" ")
        if len(fields) != 3:
            raise CorruptFile(f"{path}: expected 'topic partition offset', found {line!r}")
        offsets[fields[0], _number(fields[1], path)] = _number(fields[2], path)
    return offsets


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The offsets of the checkpoint at ``path``; none if there is no such file. CorruptFile if it is malformed."""
    try:
        return parse_offsets(disk.read(path), path)
    except FileNotFoundError:
        return {}


def render_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    """A leader epoch checkpoint of (epoch, start offset) pairs."""
    lines = [f"{epoch} {start_offset}\n" for epoch, start_offset in entries]
    return f"{VERSION}\n{len(lines)}\n{''.join(lines)}".encode()


def parse_epochs(data: bytes, path: str) -> list[tuple[int, int]]:
    """The (epoch, start offset) pairs of a leader epoch checkpoint. CorruptFile, naming ``path``, if the bytes are not
    one."""
    entries = []
    for line in _entries(data, path):
        fields = line.split(" ")
        if len(fields) != 2:
            raise CorruptFile(f"{path}: expected 'epoch startOffset', found {line!r}")
        entries.append((_number(fields[0], path), _number(fields[1], path)))
    return entries


def write_atomically(disk: Disk, path: str, data: Buffer) -> None:
    """Replace the file at ``path`` by ``data``: temporary file, fsync, rename, fsync of the directory."""
    disk.write(path + TEMPORARY, data, synchronize=True)
    disk.rename(path + TEMPORARY, path)
    disk.synchronize_directory(path.rpartition("/")[0])


def _entries(data: bytes, path: str) -> list[str]:
    if not data:
        return []  # Kafka makes its checkpoints empty before it first writes them
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise CorruptFile(f"{path}: not text") from None
    if len(lines) < 3 or lines[-1]:
        raise CorruptFile(f"{path}: cut off")
    if lines[0] != str(VERSION):
        raise CorruptFile(f"{path}: version {lines[0]!r}, expected {VERSION}")
    entries = lines[2:-1]
    if _number(lines[1], path) != len(entries):
        raise CorruptFile(f"{path}: declares {lines[1]} entries, has {len(entries)}")
    return entries


def _number(text: str, path: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise CorruptFile(f"{path}: not a number: {text[:40]!r}")
    return int(text)
