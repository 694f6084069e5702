"""The order of an audit: what the coordinators say, the ends of all logs, the map, and the comparisons.

The coordinators' logs and the positions of groups are read before the ends of the other logs are taken. So whatever
they say is complete lies below these ends, also while the brokers run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kpybroker.machines.audit import groups, joining, keys, replicas, tables, transactions
from kpybroker.machines.audit.findings import BYTES, DAMAGE, NOTE, OFFSETS, REPLICAS, TABLES, AuditFinding, BytePlace
from kpybroker.machines.audit.kept import KeptFacts, Summary
from kpybroker.machines.audit.records import committed_records
from kpybroker.machines.audit.sources import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    AuditedReplica,
    AuditSource,
    AuditTask,
    ReplicaFacts,
    Spot,
)
from kpybroker.machines.audit.stretch import SeenMarker, Stretch
from kpybroker.machines.audit.tables import TableRange
from kpybroker.machines.audit.transactions import AuditedLog, CoordinatorDecisions, TransactionOutcome
from kpybroker.machines.audit.walk import END_OF_ALL
from kpybroker.machines.audit.work import Mapped, Reached
from kpybroker.machines.transactions.transaction import Transaction
from kpystorage.control_batches import transaction_marker
from kpywire.errors import Malformed
from kpywire.record import Record

EQUALITY: Final = (BYTES, OFFSETS, REPLICAS)
"""Replicas of a partition are equal where nothing contradicts these claims."""


class AuditScope(NamedTuple):
    """The parts of an audit that a user chooses."""

    topics: tuple[str, ...] = ()
    deep: bool = False
    keys: bool = False
    """Whether the keys of compacted logs are compared with one another."""
    ranges: tuple[TableRange, ...] = ()
    since: Summary | None = None


class NoSuchTopic(Exception):
    """A topic that was asked for is not there. The text is one line for people."""


class Result(NamedTuple):
    """The result of an audit."""

    partitions: int
    most_replicas: int
    size_bytes: int
    """The bytes of all replicas up to their ends, read now or before."""
    read_bytes: int
    records: int
    """The records of all partitions, each counted once."""
    compared: int
    """The partitions with several replicas."""
    equal: int
    """The ones of them whose replicas were all read, are whole, and equal one another."""
    whole_transactions: int
    torn_transactions: int
    pending_transactions: int
    positions: int
    ranges: int
    findings: list[AuditFinding]
    summary: Summary

    @property
    def damages(self) -> int:
        """The number of findings that are damage."""
        return sum(finding.level == DAMAGE for finding in self.findings)


class Audited(NamedTuple):
    """A replica with its facts, when its log was read."""

    replica: AuditedReplica
    whole: Stretch
    facts: ReplicaFacts


class CoordinatorLogs(NamedTuple):
    """The contents of the coordinators' logs. ``decisions`` is None where not all of them are there."""

    decisions: CoordinatorDecisions | None
    positions: Mapping[tuple[str, Spot], int]
    ends: Mapping[int, int]
    """The offset behind the last decision that was complete, of each partition."""


def audit(source: AuditSource, wanted: AuditScope, mapped: Mapped, reached: Reached, total: Reached) -> Result:
    """Audit all replicas of a source. ``total`` is called with the number of bytes to read.

    Raises UnknownTopic, OSError, KafkaError, Unreachable.
    """
    coordinators = read_coordinators(source, source.replicas((TRANSACTIONS_TOPIC, OFFSETS_TOPIC)))
    chosen = [each for each in source.replicas(()) if not wanted.topics or each.topic in wanted.topics]
    for topic in {*wanted.topics} - {each.topic for each in chosen}:
        raise NoSuchTopic(f"there is no topic {topic}")
    findings: list[AuditFinding] = []
    since = wanted.since.replicas if wanted.since is not None and wanted.since.deep == wanted.deep else {}
    plans = {each.key: joining.plan(source, each, since.get(each.key), deep=wanted.deep) for each in chosen}
    tasks = [task for plan in plans.values() for task in plan.tasks]
    total(sum(task.size_bytes for task in tasks))
    stretches: dict[str, list[tuple[AuditTask, Stretch]]] = {key: [] for key in plans}
    unread: set[Spot] = set()
    for outcome in mapped(source.read, tasks, reached):
        findings += outcome.findings
        if not outcome.is_read:
            unread.add(outcome.task.replica.spot)
        stretches[outcome.task.replica.key] += [(outcome.task, each) for each in outcome.stretches]
    audited: list[Audited] = []
    keeping: dict[str, KeptFacts] = {}
    for each in chosen:
        plan = plans[each.key]
        facts = source.facts(each)
        found = joining.joined(source, plan, stretches[each.key], facts)
        findings += found.findings
        keeping[each.key] = found.kept
        audited.append(Audited(each, found.whole, facts))
    by_spot: dict[Spot, list[Audited]] = {}
    for one in audited:
        by_spot.setdefault(one.replica.spot, []).append(one)
    damaged = {(f.replica, f.topic, f.partition, f.offset) for f in findings if f.level == DAMAGE}
    for several in by_spot.values():
        findings += compare(source, several, damaged)
    unequal = unread | {(f.topic, f.partition) for f in findings if f.level == DAMAGE and f.claim in EQUALITY}
    harmed = {(each.replica, each.topic, each.partition) for each in findings if each.level == DAMAGE}
    best = {
        spot: max(several, key=lambda one: ((one.replica.label, *spot) not in harmed, one.whole.next_offset))
        for spot, several in _whole_logs(by_spot).items()
    }
    judged = wanted.since.judged if wanted.since is not None else {}
    decided = judge_transactions(source, coordinators, best, judged)
    findings += decided.findings
    bounds = {spot: _bounds(each) for spot, each in best.items()}
    findings += groups.judge(coordinators.positions, bounds)
    if wanted.keys:
        findings += [finding for each in audited for finding in _keys(source, each)]
    findings += judge_tables(source, wanted.ranges, best)
    compared = {spot for spot, several in by_spot.items() if len(several) > 1}
    return Result(
        len(by_spot),
        max((len(several) for several in _whole_logs(by_spot).values()), default=0),
        sum(each.whole.size_bytes for each in audited),
        sum(stretch.size_bytes for found in stretches.values() for _, stretch in found),
        sum(each.whole.records for each in best.values()),
        len(compared),
        len(compared - unequal),
        decided.whole,
        decided.torn,
        decided.pending,
        sum(spot in bounds for _, spot in coordinators.positions),
        len(wanted.ranges),
        merged(findings),
        Summary(wanted.deep, keeping, judged if wanted.topics else coordinators.ends),
    )


def _whole_logs(by_spot: Mapping[Spot, list[Audited]]) -> dict[Spot, list[Audited]]:
    """The replicas without copies in a store."""
    return {spot: [one for one in several if not one.replica.is_copy] for spot, several in by_spot.items()}


def merged(findings: Iterable[AuditFinding]) -> list[AuditFinding]:
    """The findings in order, damage first. What several replicas have in common is one finding."""
    replicas_of: dict[AuditFinding, list[AuditFinding]] = {}
    for each in findings:
        replicas_of.setdefault(each._replace(replica="", path="", byte=-1), []).append(each)
    whole = [
        several[0]._replace(replica=", ".join(sorted({each.replica for each in several if each.replica})))
        for several in replicas_of.values()
    ]
    return sorted(whole, key=lambda each: (each.level, each.topic, each.partition, each.offset, each.replica))


def read_coordinators(source: AuditSource, found: Sequence[AuditedReplica]) -> CoordinatorLogs:
    """Read the logs of the coordinators of transactions and groups."""
    complete: list[TransactionOutcome] = []
    pending: list[TransactionOutcome] = []
    ongoing: dict[int, Transaction] = {}
    last: dict[int, tuple[int, int]] = {}
    ends: dict[int, int] = {}
    logs = _best_of(found, TRANSACTIONS_TOPIC)
    for partition, replica in logs.items():
        decisions = transactions.read_decisions(partition, _records(source, replica))
        complete += decisions.complete
        pending += decisions.pending
        ongoing |= decisions.ongoing
        last |= decisions.last
        ends[partition] = max((each.completed_at + 1 for each in decisions.complete), default=0)
    positions: dict[tuple[str, Spot], int] = {}
    for replica in _best_of(found, OFFSETS_TOPIC).values():
        positions |= groups.positions(_records(source, replica))
    is_all = bool(logs) and sorted(logs) == list(range(len(logs)))
    return CoordinatorLogs(CoordinatorDecisions(complete, pending, ongoing, last) if is_all else None, positions, ends)


def _best_of(found: Sequence[AuditedReplica], topic: str) -> dict[int, AuditedReplica]:
    best: dict[int, AuditedReplica] = {}
    for each in found:
        if each.topic == topic:
            known = best.get(each.partition)
            if known is None or min(each.end, each.log_end) > min(known.end, known.log_end):
                best[each.partition] = each
    return dict(sorted(best.items()))


def _records(source: AuditSource, replica: AuditedReplica) -> Iterator[Record]:
    return committed_records(batch for _, batch in source.batches(replica, replica.start, replica.end))


def _bounds(each: Audited) -> groups.CommitBounds:
    end = max(each.whole.next_offset, each.replica.log_end if each.replica.is_running else 0)
    return groups.CommitBounds(max(each.whole.start, each.facts.log_start), end)


def compare(
    source: AuditSource, several: Sequence[Audited], damaged: set[tuple[str, str, int, int]]
) -> Iterator[AuditFinding]:
    """Compare the replicas of one partition below the high watermark, each with the one that has most."""
    mark = max(each.replica.high_watermark for each in several)
    is_certain = mark >= 0
    for each in several:
        own = each.replica.high_watermark
        if own > each.whole.next_offset and not each.replica.is_running:
            text = f"ends at {each.whole.next_offset}, though its high watermark is {own}"
            yield _finding(DAMAGE, each, each.whole.next_offset, text)
    if len(several) < 2:
        return
    reference = _reference(several)
    for other in several:
        if other is reference:
            continue
        end = min(reference.whole.next_offset, other.whole.next_offset, mark if is_certain else END_OF_ALL)
        is_short = other.whole.next_offset < mark and not other.replica.is_copy
        if is_short and not other.replica.high_watermark > other.whole.next_offset:
            text = f"ends at {other.whole.next_offset}, {mark - other.whole.next_offset} offsets behind the others"
            yield _finding(NOTE, other, other.whole.next_offset, text)
        yield from _compare_two(source, reference, other, end, damaged, is_certain=is_certain)


def _reference(several: Sequence[Audited]) -> Audited:
    """The replica that agrees with most of the others; of equal ones, the one that has most."""
    leaves = [{window.leaf for window in each.whole.windows} for each in several]

    def rank(index: int) -> tuple[int, int]:
        return sum(len(leaves[index] & each) for each in leaves) - len(leaves[index]), several[index].whole.next_offset

    return several[max(range(len(several)), key=rank)]


def _compare_two(
    source: AuditSource,
    reference: Audited,
    other: Audited,
    end: int,
    damaged: set[tuple[str, str, int, int]],
    *,
    is_certain: bool,
) -> Iterator[AuditFinding]:
    start = max(each.whole.start for each in (reference, other))
    start = max(start, reference.facts.log_start, other.facts.log_start)
    cleaned_to = max(reference.facts.cleaned_to, other.facts.cleaned_to)
    shown = 0
    for first, last in replicas.differing(reference.whole.windows, other.whole.windows, start, end):
        ours = source.batches(reference.replica, first, last)
        theirs = source.batches(other.replica, first, last)
        for each in replicas.differences(ours, theirs, end, cleaned_to):
            spots = [(one.replica.label, *one.replica.spot, each.offset) for one in (reference, other)]
            if any(spot in damaged for spot in spots):
                continue
            shown += 1
            if shown > replicas.MOST_DIFFERENCES:
                yield _finding(DAMAGE, other, each.offset, "more differences follow")
                return
            until = f" to {each.end - 1}" if each.end - 1 > each.offset else ""
            text = f"differs from {reference.replica.label} at offset {each.offset}{until}: {each.text}"
            if not is_certain:
                text += " (perhaps above the high watermark, which is not known)"
            yield _finding(DAMAGE if is_certain else NOTE, other, each.offset, text, each.place)


def _finding(level: str, one: Audited, offset: int, text: str, place: BytePlace | None = None) -> AuditFinding:
    where = place if place is not None and place.path else BytePlace(one.replica.directory)
    return AuditFinding(level, REPLICAS, *one.replica.spot, one.replica.label, *where, offset, text)


def judge_transactions(
    source: AuditSource,
    coordinators: CoordinatorLogs,
    best: Mapping[Spot, Audited],
    judged: Mapping[int, int],
) -> transactions.Judged:
    """Compare what the coordinators decided with the markers of all partitions, and find transactions that hang."""
    before = coordinators.decisions
    logs = {
        spot: AuditedLog(
            each.replica.label,
            each.whole,
            max(each.facts.log_start, each.whole.start),
            each.facts.cleaned_to,
            BytePlace(each.replica.directory),
            tuple(_beyond(source, each)),
        )
        for spot, each in best.items()
    }
    result = transactions.Judged(0, 0, 0, [])
    if before is not None:
        fresh = [each for each in before.complete if each.completed_at >= judged.get(each.log_partition, 0)]
        result = transactions.judge(before._replace(complete=fresh), logs)
    after = before
    is_running = any(each.replica.is_running for each in best.values())
    if is_running and before is not None and any(log.whole.open for log in logs.values()):
        found = [each._replace(end=max(each.end, each.log_end)) for each in source.replicas((TRANSACTIONS_TOPIC,))]
        after = read_coordinators(source, found).decisions
    findings = list(result.findings)
    for spot, log in logs.items():
        if spot[0] != TRANSACTIONS_TOPIC:
            findings += transactions.hanging(spot, log, before, after, result.findings)
    return result._replace(findings=findings)


def _beyond(source: AuditSource, each: Audited) -> Iterator[SeenMarker]:
    """The markers between the high watermark on disk and the log's end, while a broker runs."""
    replica, start = each.replica, each.whole.next_offset
    if not replica.is_running or replica.log_end <= start:
        return
    for _, batch in source.batches(replica, start, replica.log_end):
        header = batch.header
        if header.is_control:
            with suppress(Malformed):
                marker = transaction_marker(header, batch.data, 0)
                if marker is not None:
                    place = header.base_offset, header.max_timestamp
                    yield SeenMarker(header.producer_id, header.producer_epoch, marker.committed, *place)


def _keys(source: AuditSource, each: Audited) -> Iterator[AuditFinding]:
    end = min(each.facts.unique_to, each.whole.next_offset)
    if end:
        found = source.batches(each.replica, each.whole.start, end)
        yield from keys.repeated(each.replica, (batch for _, batch in found), end)


def judge_tables(
    source: AuditSource, ranges: Iterable[TableRange], best: Mapping[Spot, Audited]
) -> Iterator[AuditFinding]:
    """Compare the rows of tables with the logs' records."""
    for spot, its in tables.by_partition(ranges).items():
        each = best.get(spot)
        if each is None:
            text = f"table {its[0].table} covers a partition that is not there"
            yield AuditFinding(DAMAGE, TABLES, *spot, "", "", -1, its[0].start, text)
            continue
        found = source.batches(each.replica, its[0].start, each.replica.end)
        counts = tables.counted((batch for _, batch in found), its)
        yield from tables.judge(its, counts, max(each.facts.log_start, each.whole.start), each.whole.next_offset)
