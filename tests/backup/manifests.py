"""Manifests, pieces and runs that tests make up."""

from typing import Any

from kpybroker.machines.backup.manifest import PartitionAtCut, RunManifest, StoredPiece, TopicAtCut, piece_key

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAZQ"


def piece(start_offset: int, end_offset: int, run: str = "1", **fields: Any) -> StoredPiece:
    """A piece with these offsets."""
    key = piece_key(TOPIC_ID, 0, start_offset, run)
    made = StoredPiece(key, start_offset, end_offset, 100, "00", 0, 1, -1, -1, ())
    return made._replace(**fields)


def partition(*pieces: StoredPiece, **fields: Any) -> PartitionAtCut:
    """A partition with these pieces."""
    start = pieces[0].start_offset if pieces else 0
    made = PartitionAtCut(start, pieces[-1].end_offset if pieces else 0, 0, pieces, (), ())
    return made._replace(**fields)


def manifest(*partitions: PartitionAtCut, **fields: Any) -> RunManifest:
    """A manifest with one topic."""
    topic = TopicAtCut("orders", TOPIC_ID, {}, partitions)
    return RunManifest("1", "cluster", 1000, 2000, 5, (topic,), {}, ())._replace(**fields)
