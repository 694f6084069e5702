"""The manifest of a lease: what a reader of files has to know of each partition. Pure; its JSON is what the second port
answers."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from kpystorage.lending import LentSegment


class LeaseRequest(NamedTuple):
    """A partition that somebody wants to read, from this offset on."""

    topic: str
    partition: int
    start_offset: int = 0


class AbortedSpan(NamedTuple):
    """An aborted transaction in a partition: its producer, and its first and last offset."""

    producer_id: int
    first_offset: int
    last_offset: int


class PartitionManifest(NamedTuple):
    """A partition that is lent. All offsets are those of one moment.

    Records below ``high_watermark`` are committed; readers of committed transactions stop at ``last_stable_offset``.
    """

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    recovery_point: int
    """Everything below it is on the disk itself, not only in the page cache of the broker's machine."""
    segments: list[LentSegment]
    aborted: list[AbortedSpan]


class Manifest(NamedTuple):
    """The answer to a wish for a lease."""

    cluster_id: str
    node_id: int
    lease: str
    expires_in_ms: int
    """The time until the lease ends unless it is renewed."""
    partitions: list[PartitionManifest]
    refused: list[tuple[str, int, str]]
    """The partitions that are not lent: topic, partition, and why in one line."""


def to_json(manifest: Manifest) -> bytes:
    """The manifest as the second port sends it."""
    body = manifest._asdict()
    body["partitions"] = [
        {
            **part._asdict(),
            "topic_id": b64encode(part.topic_id).decode(),
            "segments": [segment._asdict() for segment in part.segments],
            "aborted": [span._asdict() for span in part.aborted],
        }
        for part in manifest.partitions
    ]
    return json.dumps(body, separators=(",", ":")).encode()


def from_json(text: bytes) -> Manifest:
    """The manifest that a broker sent. Raises ValueError if it is none."""
    try:
        body = json.loads(text)
        partitions = [_partition(part) for part in body.pop("partitions")]
        refused = [(str(topic), int(partition), str(why)) for topic, partition, why in body.pop("refused")]
        return Manifest(**body, partitions=partitions, refused=refused)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not a manifest: {error}") from None


def _partition(part: Mapping[str, Any]) -> PartitionManifest:
    rest = {name: value for name, value in part.items() if name not in ("topic_id", "segments", "aborted")}
    return PartitionManifest(
        **rest,
        topic_id=b64decode(part["topic_id"]),
        segments=[LentSegment(**segment) for segment in part["segments"]],
        aborted=[AbortedSpan(**span) for span in part["aborted"]],
    )
