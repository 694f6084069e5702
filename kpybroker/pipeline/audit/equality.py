"""The proof that a mirror with equal offsets is equal to its source, spread over processes or the executors of Spark.

Both sides are read at the same offsets, each of them a running cluster of any Kafka or log directories. The mirror's
ends are taken before the source's, so a mirror that goes on is never ahead.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kpybroker.client.connection import Unreachable
from kpybroker.machines.audit import equality
from kpybroker.machines.audit.equality import MOST_RANGES, ComparedBatches, DifferingRange
from kpybroker.machines.audit.findings import DAMAGE, MIRROR, NOTE, AuditFinding
from kpybroker.machines.audit.replicas import Placed
from kpybroker.machines.audit.running import NoSuchTopic
from kpybroker.machines.audit.sources import AuditedReplica, AuditSource, Spot
from kpybroker.machines.audit.windows import WINDOW_OFFSETS
from kpybroker.machines.audit.work import Mapped, Reached
from kpybroker.machines.errors import KafkaError
from kpybroker.pipeline.audit.mirroring import best_replicas
from kpywire.uuid import ZERO_UUID, to_string

TASK_OFFSETS: Final = 32 * WINDOW_OFFSETS
NO_IDS: Final = ("", to_string(ZERO_UUID))
"""The ids of topics of clusters that have none."""


class PartitionPair(NamedTuple):
    """A partition of the source and its mirror, and the offsets that both have."""

    source: AuditedReplica
    mirror: AuditedReplica
    start: int
    end: int
    cleaned_to: int
    """The offset below which the source may have compacted its log since it was mirrored."""


class EqualityTask(NamedTuple):
    """A piece of work: the batches with base offsets in ``start .. end``."""

    pair: PartitionPair
    start: int
    end: int
    size_bytes: int


class EqualityOutcome(NamedTuple):
    """The result of a task. ``trouble`` says why not all of it could be read; empty if it was."""

    task: EqualityTask
    compared: ComparedBatches
    trouble: str


class Equality(NamedTuple):
    """The result of a proof."""

    partitions: int
    equal: int
    """The ones of them whose batches are all equal, as far as both sides have them."""
    batches: int
    """The batches that are equal."""
    findings: list[AuditFinding]


def prove(
    mirror: AuditSource, source: AuditSource, topics: Sequence[str], mapped: Mapped, reached: Reached, total: Reached
) -> Equality:
    """Compare all batches of the partitions that both sides have, Kafka's own topics left out. Topics of one name with
    different ids are no mirrors of one another.

    Raises OSError, KafkaError, Unreachable, NoSuchTopic.
    """
    theirs = best_replicas(mirror, topics)
    ours = best_replicas(source, topics)
    for topic in topics:
        if not any(name == topic for name, _ in ours):
            raise NoSuchTopic(f"the source has no topic {topic}")
    pairs, findings = _paired(mirror, source, ours, theirs)
    missing = len(findings)
    findings += [_unlike(theirs[spot], is_wanted=bool(topics)) for spot in _unlike_topics(ours, theirs)]
    tasks = [task for pair in pairs for task in _tasks(pair)]
    total(sum(task.size_bytes for task in tasks))
    outcomes: dict[Spot, list[EqualityOutcome]] = {pair.mirror.spot: [] for pair in pairs}
    for each in mapped(partial(compare_range, mirror, source), tasks, reached):
        outcomes[each.task.pair.mirror.spot].append(each)
    equal = batches = 0
    for pair in pairs:
        done = sorted(outcomes[pair.mirror.spot], key=lambda each: each.task.start)
        whole = equality.joined(each.compared for each in done)
        found = [*_behind(pair), *_troubles(done), *_differences(mirror, source, pair, whole)]
        batches += whole.equal
        equal += not any(each.level == DAMAGE for each in found)
        findings += found
    return Equality(len(pairs) + missing, equal, batches, findings)


def _paired(
    mirror: AuditSource,
    source: AuditSource,
    ours: Mapping[Spot, AuditedReplica],
    theirs: Mapping[Spot, AuditedReplica],
) -> tuple[list[PartitionPair], list[AuditFinding]]:
    """The partitions that both sides have, and those that the mirror lacks of its topics."""
    mirrored = {topic for topic, _ in theirs} - {topic for topic, _ in _unlike_topics(ours, theirs)}
    pairs, findings = [], []
    for spot, one in sorted(ours.items()):
        two = theirs.get(spot)
        if two is not None and spot[0] in mirrored:
            pairs.append(_pair(mirror, source, one, two))
        elif spot[0] in mirrored:
            text = "the mirror has no such partition"
            findings.append(AuditFinding(DAMAGE, MIRROR, *spot, "mirror", "", -1, -1, text))
    return pairs, findings


def _unlike_topics(ours: Mapping[Spot, AuditedReplica], theirs: Mapping[Spot, AuditedReplica]) -> list[Spot]:
    """A partition of each topic that has another id at the source."""
    found: dict[str, Spot] = {}
    for spot, one in sorted(ours.items()):
        two = theirs.get(spot)
        if two is not None and one.topic_id not in NO_IDS and two.topic_id not in (*NO_IDS, one.topic_id):
            found.setdefault(spot[0], spot)
    return list(found.values())


def _unlike(replica: AuditedReplica, *, is_wanted: bool) -> AuditFinding:
    text = "its id is not that of the source's topic: it is no mirror of it, or it was created again at the source"
    level = DAMAGE if is_wanted else NOTE
    return AuditFinding(level, MIRROR, replica.topic, -1, f"mirror, {replica.label}", "", -1, -1, text)


def _pair(mirror: AuditSource, source: AuditSource, ours: AuditedReplica, theirs: AuditedReplica) -> PartitionPair:
    facts = source.facts(ours)
    start = max(ours.start, facts.log_start, theirs.start, mirror.facts(theirs).log_start)
    return PartitionPair(ours, theirs, start, min(_end(ours), _end(theirs)), facts.cleaned_to)


def _end(replica: AuditedReplica) -> int:
    return min(replica.end, replica.log_end)


def _tasks(pair: PartitionPair) -> Iterator[EqualityTask]:
    begin = pair.start
    sides = ((each.size_bytes, max(_end(each) - each.start, 1)) for each in (pair.source, pair.mirror))
    per_offset = sum(size_bytes / offsets for size_bytes, offsets in sides)
    while begin < pair.end:
        end = min((begin // TASK_OFFSETS + 1) * TASK_OFFSETS, pair.end)
        yield EqualityTask(pair, begin, end, int(per_offset * (end - begin)))
        begin = end


def compare_range(mirror: AuditSource, source: AuditSource, task: EqualityTask) -> EqualityOutcome:
    """Do a task. What cannot be read is no error."""
    pair, seen = task.pair, [task.start]
    try:
        ours = _batches(source, pair.source, task, seen)
        theirs = _batches(mirror, pair.mirror, task, [0])
        return EqualityOutcome(task, equality.compare(ours, theirs, pair.cleaned_to), "")
    except (KafkaError, Unreachable, OSError) as error:
        nothing = ComparedBatches(0, (), begins_differing=False, ends_differing=False)
        return EqualityOutcome(task, nothing, f"cannot be compared from offset {seen[0]} on: {error}")


def _batches(side: AuditSource, replica: AuditedReplica, task: EqualityTask, seen: list[int]) -> Iterator[Placed]:
    """The batches of a task. The first task has the batch that the start lies in, too."""
    for placed in side.batches(replica, task.start, task.end):
        base = placed[1].header.base_offset
        if task.start <= base < task.end or base < task.start == task.pair.start:
            seen[0] = base
            yield placed


def _behind(pair: PartitionPair) -> Iterator[AuditFinding]:
    ours, theirs = _end(pair.source), _end(pair.mirror)
    if theirs < ours:
        yield _finding(NOTE, pair, theirs, f"is {ours - theirs} offsets behind its source, which ends at {ours}")
    elif theirs > ours:
        yield _finding(DAMAGE, pair, ours, f"has {theirs - ours} offsets more than its source, which ends at {ours}")


def _troubles(outcomes: Sequence[EqualityOutcome]) -> Iterator[AuditFinding]:
    for each in outcomes:
        if each.trouble:
            yield _finding(DAMAGE, each.task.pair, each.task.start, each.trouble)


def _differences(
    mirror: AuditSource, source: AuditSource, pair: PartitionPair, whole: ComparedBatches
) -> Iterator[AuditFinding]:
    """The ranges that differ, but for those that one side has deleted meanwhile."""
    if not whole.ranges:
        return
    start = max(source.facts(pair.source).log_start, mirror.facts(pair.mirror).log_start)
    ranges = [each for each in whole.ranges if each.end > start]
    for each in ranges[:MOST_RANGES]:
        yield _finding(DAMAGE, pair, each.start, _text(pair, each), each)
    if len(ranges) > MOST_RANGES:
        text = f"differs in {len(ranges) - MOST_RANGES} more places"
        yield _finding(DAMAGE, pair, ranges[MOST_RANGES].start, text)


def _text(pair: PartitionPair, each: DifferingRange) -> str:
    where = f"at offset {each.start}" + (f" to {each.end - 1}" if each.end - 1 > each.start else "")
    if each.end >= pair.end:
        where = f"from offset {each.start} on"
    several = f" ({each.batches} batches)" if each.batches > 1 else ""
    return f"differs from its source {where}{several}: {each.text}"


def _finding(
    level: str, pair: PartitionPair, offset: int, text: str, found: DifferingRange | None = None
) -> AuditFinding:
    replica = pair.mirror
    has_place = found is not None and bool(found.place.path)
    path, byte = found.place if found is not None and has_place else (replica.directory, -1)
    return AuditFinding(level, MIRROR, *replica.spot, f"mirror, {replica.label}", path, byte, offset, text)
