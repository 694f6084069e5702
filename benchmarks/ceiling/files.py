"""The answers of a broker to Fetch, as places in its own segment files."""

import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.raw.asking import Conversation
from benchmarks.raw.frames import NO_TAGS, compact, frame, uvarint
from benchmarks.raw.many import Reader

BY_ID = 13
NO_REPLICA = 15
"""The first version without a replica id in the body."""
BATCH_OVERHEAD = 12
LAST_DELTA_AT = 23
BATCH_HEADER = 61


class FetchError(RuntimeError):
    """The broker refuses a Fetch, or what it answers is not in its files."""


class Asked(NamedTuple):
    """One partition of a Fetch; ``topic`` is a name, or an id from version 13 on."""

    version: int
    isolation: int
    topic: bytes
    partition: int
    max_bytes: int
    offset: int


class Piece(NamedTuple):
    """The answer for one partition at one offset: what stands before and behind its records, and where those lie."""

    partition: int
    offset: int
    path: str
    position: int
    length: int
    head: bytes
    tail: bytes


def asked(request: bytes) -> Iterator[Asked]:
    """Return what a Fetch without its correlation id asks for."""
    (version,) = struct.unpack_from(">h", request, 2)
    reader = Reader(request, 4)
    reader.string()
    reader.skip_tags()
    reader.skip((4 if version < NO_REPLICA else 0) + 4 + 4 + 4)
    (isolation,) = reader.take(1)
    reader.skip(4 + 4)
    for _ in range(reader.uvarint() - 1):
        topic = reader.take(16) if version >= BY_ID else reader.compact()
        for _ in range(reader.uvarint() - 1):
            partition, _, offset = reader.i32(), reader.i32(), reader.i64()
            reader.skip(4 + 8)
            yield Asked(version, isolation, topic, partition, reader.i32(), offset)
            reader.skip_tags()
        reader.skip_tags()


def request(one: Asked) -> bytes:
    """A Fetch of one partition that does not wait, with its size."""
    replica = struct.pack(">i", -1) if one.version < NO_REPLICA else b""
    head = replica + struct.pack(">iiibii", 0, 0, one.max_bytes, one.isolation, 0, -1)
    topic = one.topic if one.version >= BY_ID else compact(one.topic)
    entry = struct.pack(">iiqiqi", one.partition, -1, one.offset, -1, -1, one.max_bytes) + NO_TAGS
    body = head + uvarint(2) + topic + uvarint(2) + entry + NO_TAGS + uvarint(1) + compact(b"") + NO_TAGS
    return frame(1, one.version, body)


class Segments:
    """The places of batches in the files of a directory of partitions."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._places: dict[tuple[str, int], dict[int, tuple[Path, int]]] = {}

    def place(self, topic: str, partition: int, base_offset: int) -> tuple[Path, int]:
        """File and position of the batch that begins at this offset. Raises FetchError."""
        key = topic, partition
        if key not in self._places:
            files = sorted((self._data / f"{topic}-{partition}").glob("*.log"))
            self._places[key] = {base: (path, at) for path in files for base, at in batches(path)}
        try:
            return self._places[key][base_offset]
        except KeyError:
            raise FetchError(f"no batch of {topic}-{partition} begins at {base_offset} in its files") from None


def batches(path: Path) -> Iterator[tuple[int, int]]:
    """Base offset and position of each batch of a segment."""
    at, size = 0, path.stat().st_size
    with open(path, "rb") as file:
        while at + BATCH_HEADER <= size:
            base, length = struct.unpack(">qi", os.pread(file.fileno(), BATCH_OVERHEAD, at))
            if not length:
                return
            yield base, at
            at += length + BATCH_OVERHEAD


def pieces(conversation: Conversation, segments: Segments, topic: str, starts: Iterable[Asked]) -> list[Piece]:
    """The answers at these offsets of a topic and at all that follow from them, by partition and offset.

    Raises FetchError, OSError.
    """
    found: dict[tuple[int, int], Piece] = {}
    for start in sorted(starts):
        one = start
        while (one.partition, one.offset) not in found:
            piece, following = _piece(conversation.ask(request(one)), one, segments, topic)
            found[one.partition, one.offset] = piece
            one = one._replace(offset=following)
    return [found[key] for key in sorted(found)]


def _piece(answer: bytes, one: Asked, segments: Segments, topic: str) -> tuple[Piece, int]:
    """And the offset behind it."""
    reader = Reader(answer, 4 + 1 + 4)
    error = reader.i16()
    reader.skip(4)
    reader.uvarint()
    reader.take(16) if one.version >= BY_ID else reader.compact()
    reader.uvarint()
    begin = reader.at
    reader.skip(4)
    error = error or reader.i16()
    if error:
        raise FetchError(f"Fetch of {topic}-{one.partition} is answered with {error}")
    reader.skip(8 + 8 + 8)
    for _ in range(reader.uvarint() - 1):
        reader.skip(8 + 8)
        reader.skip_tags()
    reader.skip(4)
    head = answer[begin : reader.at]
    records = reader.compact()
    begin = reader.at
    reader.skip_tags()
    tail = answer[begin : reader.at]
    if not records:
        return Piece(one.partition, one.offset, "", 0, 0, head, tail), one.offset
    path, position = segments.place(topic, one.partition, int.from_bytes(records[:8], "big"))
    piece = Piece(one.partition, one.offset, str(path), position, len(records), head, tail)
    return piece, behind(records)


def behind(records: bytes) -> int:
    """The offset behind the last whole batch. Raises FetchError when there is none."""
    at, offset = 0, -1
    while at + BATCH_HEADER <= len(records):
        base, length = struct.unpack_from(">qi", records, at)
        at += length + BATCH_OVERHEAD
        if at <= len(records):
            (last_delta,) = struct.unpack_from(">i", records, at - length - BATCH_OVERHEAD + LAST_DELTA_AT)
            offset = base + last_delta + 1
    if offset < 0:
        raise FetchError("an answer holds no whole batch")
    return offset
