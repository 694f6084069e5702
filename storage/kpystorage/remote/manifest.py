"""The ``.rsm-manifest`` object of a segment: JSON by which its other objects are read (Aiven's plugin, version 1).

Whatever the bytes are, they are a manifest or CorruptObject is raised, with memory and time in proportion to them:
size, depth and number of values are bounded before they are parsed, and every number is checked against the others.
"""

import binascii
import json
from base64 import b64decode, b64encode
from typing import Any, Final, NamedTuple

from kpystorage.errors import CorruptObject
from kpystorage.remote import chunk_sizes, indexes
from kpystorage.remote.chunks import MOST_CHUNKS, ChunkIndex, FixedChunks, VariableChunks
from kpystorage.remote.indexes import IndexType, SegmentIndexes, StoredIndex
from kpystorage.remote.segment_name import MOST_INT, MOST_LONG, RemoteSegmentName, shown, uuid_in
from kpystorage.remote.transforms import bounds
from kpywire.uuid import to_string
from kpywire.varint import Buffer

VERSION: Final = "1"
MOST_BYTES: Final = 4 * MOST_CHUNKS
"""The largest manifest. One with the most chunks takes less."""
MOST_VALUES: Final = 100_000
_AAD_BYTES: Final = 1024


class SegmentEncryption(NamedTuple):
    """The data key as a key ring wraps it, and the additional data of all encrypted pieces."""

    data_key: str
    aad: bytes


class DescribedSegment(NamedTuple):
    """The words of a manifest about its segment, for people: what the records say of it counts. ``end_offset`` is that
    of the last record, ``leader_epochs`` are pairs of epoch and start offset."""

    name: RemoteSegmentName
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    event_timestamp_ms: int
    leader_epochs: tuple[tuple[int, int], ...]


class SegmentManifest(NamedTuple):
    """The facts of a manifest."""

    chunks: ChunkIndex
    indexes: SegmentIndexes
    compressed: bool = False
    encryption: SegmentEncryption | None = None
    segment: DescribedSegment | None = None


def render(manifest: SegmentManifest) -> bytes:
    """The bytes of the object, in the order in which the plugin writes the fields."""
    facts: dict[str, Any] = {
        "version": VERSION,
        "chunkIndex": _rendered_chunks(manifest.chunks),
        "segmentIndexes": {each.value: _rendered_place(manifest.indexes.get(each)) for each in IndexType},
        "compression": manifest.compressed,
    }
    if manifest.encryption is not None:
        aad = b64encode(manifest.encryption.aad).decode()
        facts["encryption"] = {"dataKey": manifest.encryption.data_key, "aad": aad}
    facts["remoteLogSegmentMetadata"] = None if manifest.segment is None else _rendered_segment(manifest.segment)
    return json.dumps(facts, separators=(",", ":"), ensure_ascii=False).encode()


def parse(data: Buffer) -> SegmentManifest:
    """The facts in the bytes of the object. CorruptObject if they are no manifest, or contradict one another."""
    fields = _Fields("the manifest", _json(bytes(data)))
    version = fields.text("version")
    if version != VERSION:
        raise CorruptObject(f"a manifest of version {shown(version)}: version {VERSION} can be read")
    encryption = None
    if fields.has("encryption"):
        secret = _Fields("encryption", fields.take("encryption"))
        encryption = SegmentEncryption(secret.text("dataKey"), secret.base64("aad"))
        secret.end()
    compressed = fields.take("compression")
    if not isinstance(compressed, bool):
        raise CorruptObject(f"compression is {shown(compressed)}")
    chunks = _parsed_chunks(fields.take("chunkIndex"))
    places = _parsed_indexes(fields.take("segmentIndexes"))
    segment = _described(fields.take("remoteLogSegmentMetadata")) if fields.has("remoteLogSegmentMetadata") else None
    fields.end()
    for size, least, most in chunks.extremes():
        possible = bounds(size, compressed=compressed, encrypted=encryption is not None)
        if not possible[0] <= least <= most <= possible[1]:
            stored = least if least < possible[0] else most
            raise CorruptObject(f"a chunk of {size} bytes is stored in {stored}, not in {possible[0]} to {possible[1]}")
    indexes.check(places, encrypted=encryption is not None)
    return SegmentManifest(chunks, places, compressed, encryption, segment)


class _Fields:
    """The fields of one object of JSON, each taken once."""

    def __init__(self, title: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise CorruptObject(f"{title} is {shown(value)}, no object")
        self._title = title
        self._left = dict(value)

    def has(self, name: str) -> bool:
        """Whether the field is there, and not null."""
        if name in self._left and self._left[name] is None:
            del self._left[name]
        return name in self._left

    def take(self, name: str) -> Any:
        if name not in self._left:
            raise CorruptObject(f"{self._title} without {name}")
        return self._left.pop(name)

    def text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str):
            raise CorruptObject(f"{name} of {self._title} is {shown(value)}, no text")
        return value

    def number(self, name: str, least: int = 0, most: int = MOST_INT) -> int:
        value = self.take(name)
        if type(value) is not int or not least <= value <= most:
            raise CorruptObject(f"{name} of {self._title} is {shown(value)}, no number from {least} to {most}")
        return value

    def base64(self, name: str) -> bytes:
        text = self.text(name)
        try:
            value = b64decode(text[: 2 * _AAD_BYTES], validate=True)
        except (binascii.Error, ValueError):
            raise CorruptObject(f"{name} of {self._title} is {shown(text)}, no base64") from None
        if len(value) > _AAD_BYTES:
            raise CorruptObject(f"{name} of {self._title} has more than {_AAD_BYTES} bytes")
        return value

    def end(self) -> None:
        """Every field was taken, so nothing was said that is not understood."""
        for name in self._left:
            raise CorruptObject(f"{self._title} with {shown(name)}, which is not known")


def _json(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise CorruptObject(f"a manifest of {len(data)} bytes, more than {MOST_BYTES}")
    values = data.count(b",") + data.count(b"[") + data.count(b"{")
    if values > MOST_VALUES:
        raise CorruptObject(f"a manifest with {values} values, more than {MOST_VALUES}")
    try:
        return json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_refused)
    except RecursionError:
        raise CorruptObject("a manifest that is too deep") from None
    except ValueError as error:
        raise CorruptObject(f"a manifest that is no JSON: {str(error)[:100]}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CorruptObject("a manifest with a field that is there twice")
    return found


def _refused(constant: str) -> Any:
    raise CorruptObject(f"a manifest with the number {constant}")


def _rendered_chunks(chunks: ChunkIndex) -> dict[str, Any]:
    facts: dict[str, Any] = {"originalChunkSize": chunks.chunk_bytes, "originalFileSize": chunks.segment_bytes}
    if isinstance(chunks, FixedChunks):
        sizes = {
            "transformedChunkSize": chunks.stored_chunk_bytes,
            "finalTransformedChunkSize": chunks.last_stored_bytes,
        }
        return {"type": "fixed", **facts, **sizes}
    assert isinstance(chunks, VariableChunks)
    return {"type": "variable", **facts, "transformedChunks": chunk_sizes.encode(chunks.stored_sizes())}


def _parsed_chunks(value: Any) -> FixedChunks | VariableChunks:
    fields = _Fields("chunkIndex", value)
    kind = fields.text("type")
    chunk_bytes, segment_bytes = fields.number("originalChunkSize", 1), fields.number("originalFileSize")
    found: FixedChunks | VariableChunks
    match kind:
        case "fixed":
            sizes = fields.number("transformedChunkSize"), fields.number("finalTransformedChunkSize")
            found = FixedChunks(segment_bytes, chunk_bytes, *sizes)
        case "variable":
            count = -(-segment_bytes // chunk_bytes)
            if count > MOST_CHUNKS:
                raise CorruptObject(f"{count} chunks, more than {MOST_CHUNKS}")
            decoded = chunk_sizes.decode(fields.text("transformedChunks"), count)
            found = VariableChunks(segment_bytes, chunk_bytes, decoded)
        case _:
            raise CorruptObject(f"a chunkIndex of type {shown(kind)}")
    fields.end()
    return found


def _rendered_place(place: StoredIndex | None) -> dict[str, int] | None:
    return None if place is None else {"position": place.position, "size": place.size}


def _parsed_indexes(value: Any) -> SegmentIndexes:
    fields = _Fields("segmentIndexes", value)
    found = {}
    for each in IndexType:
        if each is not IndexType.TRANSACTION or fields.has(each.value):
            place = _Fields(each.value, fields.take(each.value))
            found[each] = StoredIndex(place.number("position"), place.number("size"))
            place.end()
    fields.end()
    return found


def _rendered_segment(segment: DescribedSegment) -> dict[str, Any]:
    name = segment.name
    partition = {"topic": name.topic, "partition": name.partition}
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {"topicId": to_string(name.topic_id), "topicPartition": partition},
            "id": to_string(name.segment_id),
        },
        "startOffset": name.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): offset for epoch, offset in segment.leader_epochs},
    }


def _described(value: Any) -> DescribedSegment | None:
    """The words about the segment; None if they are others than today's: the plugin does not read them either."""
    try:
        fields = _Fields("remoteLogSegmentMetadata", value)
        named = _Fields("remoteLogSegmentId", fields.take("remoteLogSegmentId"))
        topic = _Fields("topicIdPartition", named.take("topicIdPartition"))
        partition = _Fields("topicPartition", topic.take("topicPartition"))
        name = RemoteSegmentName(
            partition.text("topic"),
            uuid_in(topic.text("topicId")),
            partition.number("partition"),
            fields.number("startOffset", 0, MOST_LONG),
            uuid_in(named.text("id")),
        )
        epochs = _Fields("segmentLeaderEpochs", value["segmentLeaderEpochs"])
        return DescribedSegment(
            name,
            fields.number("endOffset", 0, MOST_LONG),
            fields.number("maxTimestampMs", -MOST_LONG, MOST_LONG),
            fields.number("brokerId", -MOST_INT),
            fields.number("eventTimestampMs", -MOST_LONG, MOST_LONG),
            tuple((int(epoch), epochs.number(epoch, 0, MOST_LONG)) for epoch in value["segmentLeaderEpochs"]),
        )
    except (CorruptObject, KeyError, ValueError):
        return None
