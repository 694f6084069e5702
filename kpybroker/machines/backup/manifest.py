"""The manifest of a run: the topics, the pieces of their logs, the groups and the transactions of one cut, as JSON.

A manifest is complete by itself: it names every piece that its cut needs, those of earlier runs among them.

Invariant: a manifest is written after all pieces that it names, so a run without a manifest is no backup.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kpybroker.machines.metadata.topic_name import reason_invalid

VERSION: Final = 1
RUNS: Final = "runs/"
TOPICS: Final = "topics/"
MANIFEST_SUFFIX: Final = ".json"
PIECE_SUFFIX: Final = ".log"
MOST_MANIFEST_BYTES: Final = 1 << 30
MOST_ENTRY_BYTES: Final = 64 << 20

T = TypeVar("T")


class BadManifest(Exception):
    """A text is no manifest, or no entry of a piece. The message is one line."""


class BegunTransaction(NamedTuple):
    """A transaction that has no marker yet in a partition."""

    producer_id: int
    epoch: int
    first_offset: int


class ReadMarker(NamedTuple):
    """The marker of a transaction in a partition."""

    offset: int
    producer_id: int
    epoch: int
    begun_epoch: int
    """The epoch of the batches that it ends; above it ``epoch`` is that of ``transaction.version`` 2. -1 without
    batches."""
    is_commit: bool


class StoredPiece(NamedTuple):
    """An object with the batches of a range of offsets, byte for byte."""

    key: str
    start_offset: int
    end_offset: int
    size_bytes: int
    sha256: str
    leader_epoch: int
    """The leader epoch of the last batch."""
    max_timestamp: int
    max_producer_id: int
    """The largest producer id of all batches; -1 if none has one."""
    gap_end: int
    """The offset of the last batch that others were missing before, as compaction leaves it; -1 if there is none."""
    open: tuple[BegunTransaction, ...]
    """The transactions that are open behind the last batch."""


class TransactionEnd(NamedTuple):
    """The marker that a restore adds for a transaction that is open at the cut."""

    producer_id: int
    epoch: int
    is_commit: bool


class PartitionAtCut(NamedTuple):
    """A partition at the cut."""

    start_offset: int
    end_offset: int
    leader_epoch: int
    pieces: tuple[StoredPiece, ...]
    ends: tuple[TransactionEnd, ...]
    overturned: tuple[ReadMarker, ...]
    """The COMMIT markers that become ABORT markers, since the cut lacks a part of their transactions."""


class TopicAtCut(NamedTuple):
    """A topic at the cut. ``topic_id`` is in Kafka's text form; ``configs`` are those set on the topic."""

    name: str
    topic_id: str
    configs: Mapping[str, str]
    partitions: tuple[PartitionAtCut, ...]


class GroupPosition(NamedTuple):
    """A committed offset of a group."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class RunManifest(NamedTuple):
    """One run."""

    run: str
    """The name of the run: the time of its begin in UTC, to the millisecond."""
    cluster_id: str
    cut_ms: int
    """The time at which the ends had been read: no record came later."""
    finished_ms: int
    offsets_partitions: int
    """The number of partitions of ``__consumer_offsets``."""
    topics: tuple[TopicAtCut, ...]
    groups: Mapping[str, tuple[GroupPosition, ...]]
    notes: tuple[str, ...]
    """The things that a reader of this backup should know, one line each."""

    @property
    def size_bytes(self) -> int:
        """The size of all pieces."""
        return sum(piece.size_bytes for _, _, part in partitions_of(self) for piece in part.pieces)

    @property
    def new_bytes(self) -> int:
        """The size of the pieces that this run wrote."""
        return sum(
            piece.size_bytes
            for _, _, part in partitions_of(self)
            for piece in part.pieces
            if run_of(piece.key) == self.run
        )


def partitions_of(manifest: RunManifest) -> list[tuple[TopicAtCut, int, PartitionAtCut]]:
    """All partitions of a manifest, with their topics and numbers."""
    return [(topic, index, part) for topic in manifest.topics for index, part in enumerate(topic.partitions)]


def manifest_key(run: str) -> str:
    """The key of a run's manifest."""
    return f"{RUNS}{run}{MANIFEST_SUFFIX}"


def run_of_manifest(key: str) -> str | None:
    """The run whose manifest has this key; None for another object."""
    if not key.startswith(RUNS) or not key.endswith(MANIFEST_SUFFIX):
        return None
    return key.removeprefix(RUNS).removesuffix(MANIFEST_SUFFIX)


def piece_key(topic_id: str, partition: int, start_offset: int, run: str) -> str:
    """The key of a piece. Its entry has the same key with `MANIFEST_SUFFIX` behind it."""
    return f"{TOPICS}{topic_id}/{partition}/{start_offset:020d}-{run}{PIECE_SUFFIX}"


def run_of(key: str) -> str:
    """The run that wrote a piece, or the entry of one."""
    return key.rpartition("/")[2].removesuffix(MANIFEST_SUFFIX).removesuffix(PIECE_SUFFIX).partition("-")[2]


def place_of_entry(key: str) -> tuple[str, int] | None:
    """The topic id and the partition of the entry with this key; None for another object."""
    if not key.endswith(PIECE_SUFFIX + MANIFEST_SUFFIX):
        return None
    _, _, rest = key.partition(TOPICS)
    topic_id, _, rest = rest.partition("/")
    partition = rest.partition("/")[0]
    return (topic_id, int(partition)) if partition.isdecimal() else None


# As JSON.


def manifest_json(manifest: RunManifest) -> bytes:
    """The manifest as it is stored."""
    document = {
        "version": VERSION,
        **manifest._asdict(),
        "topics": [
            {**topic._asdict(), "partitions": [_partition_document(part) for part in topic.partitions]}
            for topic in manifest.topics
        ],
        "groups": {group: [each._asdict() for each in held] for group, held in manifest.groups.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")


def entry_json(piece: StoredPiece) -> bytes:
    """The entry of a piece as it is stored beside the piece."""
    return json.dumps(_piece_document(piece)).encode()


def read_manifest(text: bytes) -> RunManifest:
    """The manifest of a run. Raises BadManifest."""
    return _read(text, _manifest, "manifest")


def read_entry(text: bytes) -> StoredPiece:
    """The entry of a piece. Raises BadManifest."""
    return _read(text, _piece, "entry of a piece")


def _read(text: bytes, read: Callable[[Any], T], what: str) -> T:
    try:
        return read(json.loads(text.decode("utf-8", "surrogatepass")))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadManifest(f"it is no {what}: {type(error).__name__} {error}") from None


def _partition_document(part: PartitionAtCut) -> dict[str, Any]:
    return {
        **part._asdict(),
        "pieces": [_piece_document(piece) for piece in part.pieces],
        "ends": [each._asdict() for each in part.ends],
        "overturned": [each._asdict() for each in part.overturned],
    }


def _piece_document(piece: StoredPiece) -> dict[str, Any]:
    return {**piece._asdict(), "open": [each._asdict() for each in piece.open]}


def _manifest(document: Any) -> RunManifest:
    if document["version"] != VERSION:
        raise BadManifest(f"it is of version {document['version']}, and this program knows version {VERSION}")
    return RunManifest(
        run=_text(document["run"]),
        cluster_id=_text(document["cluster_id"]),
        cut_ms=_number(document["cut_ms"]),
        finished_ms=_number(document["finished_ms"]),
        offsets_partitions=_number(document["offsets_partitions"]),
        topics=tuple(_topic(each) for each in document["topics"]),
        groups={group: tuple(_position(each) for each in held) for group, held in document["groups"].items()},
        notes=tuple(_text(each) for each in document["notes"]),
    )


def _topic(document: Any) -> TopicAtCut:
    name = _text(document["name"])
    reason = reason_invalid(name)
    if reason is not None:  # a restore makes directories of these names
        raise BadManifest(reason)
    return TopicAtCut(
        name,
        _text(document["topic_id"]),
        {_text(name): _text(value) for name, value in document["configs"].items()},
        tuple(_partition(each) for each in document["partitions"]),
    )


def _partition(document: Any) -> PartitionAtCut:
    return PartitionAtCut(
        _number(document["start_offset"]),
        _number(document["end_offset"]),
        _number(document["leader_epoch"]),
        tuple(_piece(each) for each in document["pieces"]),
        tuple(
            TransactionEnd(_number(each["producer_id"]), _number(each["epoch"]), each["is_commit"] is True)
            for each in document["ends"]
        ),
        tuple(
            ReadMarker(
                _number(each["offset"]),
                _number(each["producer_id"]),
                _number(each["epoch"]),
                _number(each["begun_epoch"]),
                each["is_commit"] is True,
            )
            for each in document["overturned"]
        ),
    )


def _piece(document: Any) -> StoredPiece:
    return StoredPiece(
        _text(document["key"]),
        _number(document["start_offset"]),
        _number(document["end_offset"]),
        _number(document["size_bytes"]),
        _text(document["sha256"]),
        _number(document["leader_epoch"]),
        _number(document["max_timestamp"]),
        _number(document["max_producer_id"]),
        _number(document["gap_end"]),
        tuple(
            BegunTransaction(_number(each["producer_id"]), _number(each["epoch"]), _number(each["first_offset"]))
            for each in document["open"]
        ),
    )


def _position(document: Any) -> GroupPosition:
    return GroupPosition(
        _text(document["topic"]),
        _number(document["partition"]),
        _number(document["offset"]),
        _number(document["leader_epoch"]),
        _text(document["metadata"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is no number")
    return value
