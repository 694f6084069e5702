"""The comparison of a mirror's partitions with those of its source, spread over processes."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from kpybroker.machines.audit import mirror
from kpybroker.machines.audit.findings import DAMAGE, MIRROR, NOTE, AuditFinding
from kpybroker.machines.audit.sources import AuditedReplica, AuditSource, Spot
from kpybroker.machines.audit.work import Mapped, Reached
from kpystorage.reading import StoredBatch


class Pair(NamedTuple):
    """A partition of the source and its mirror."""

    source: AuditedReplica
    mirror: AuditedReplica
    size_bytes: int


class Mirroring(NamedTuple):
    """The mirror and how it is compared."""

    mirror: AuditSource
    prefix: str = ""
    """The prefix of the mirror's topics, such as ``primary.`` (MirrorMaker)."""
    any_offsets: bool = False
    topics: tuple[str, ...] = ()


def compare(
    source: AuditSource, wanted: Mirroring, mapped: Mapped, reached: Reached, total: Reached
) -> tuple[int, list[AuditFinding]]:
    """Compare all partitions, Kafka's own topics left out. Return the number of partitions, and what was found.

    Raises OSError, KafkaError, Unreachable.
    """
    ours = best_replicas(source, wanted.topics)
    prefixed = tuple(wanted.prefix + topic for topic in wanted.topics)
    theirs = {
        (topic.removeprefix(wanted.prefix), partition): replica
        for (topic, partition), replica in best_replicas(wanted.mirror, prefixed).items()
        if topic.startswith(wanted.prefix)
    }
    findings = []
    pairs = []
    for spot, replica in sorted(ours.items()):
        if spot in theirs:
            pairs.append(Pair(replica, theirs[spot], replica.size_bytes + theirs[spot].size_bytes))
        else:
            findings.append(
                AuditFinding(DAMAGE, MIRROR, *spot, "mirror", "", -1, -1, "the mirror has no such partition")
            )
    total(sum(pair.size_bytes for pair in pairs))
    call = partial(compare_pair, source, wanted.mirror, wanted.any_offsets)
    for found in mapped(call, pairs, reached):
        findings += found
    return len(pairs), findings


def compare_pair(source: AuditSource, mirrored: AuditSource, any_offsets: bool, pair: Pair) -> list[AuditFinding]:  # noqa: FBT001
    """Compare one partition with its mirror."""
    ours = partial(_batches, source, pair.source)
    theirs = partial(_batches, mirrored, pair.mirror)
    replica = pair.mirror
    return [
        AuditFinding(
            NOTE if each.is_behind else DAMAGE,
            MIRROR,
            *replica.spot,
            f"mirror, {replica.label}",
            replica.directory,
            -1,
            each.offset,
            each.text,
        )
        for each in mirror.compare(ours, theirs, any_offsets=any_offsets)
    ]


def _batches(source: AuditSource, replica: AuditedReplica) -> Iterator[StoredBatch]:
    return (batch for _, batch in source.batches(replica, replica.start, replica.end))


def best_replicas(source: AuditSource, topics: Sequence[str]) -> Mapping[Spot, AuditedReplica]:
    """The replica of each partition that has most. Kafka's own topics are left out."""
    best: dict[Spot, AuditedReplica] = {}
    for each in source.replicas(()):
        if each.topic.startswith("__") or (topics and each.topic not in topics):
            continue
        known = best.get(each.spot)
        if known is None or min(each.end, each.log_end) > min(known.end, known.log_end):
            best[each.spot] = each
    return best
