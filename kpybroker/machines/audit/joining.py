"""One replica: the work that is left after an earlier audit, and its stretches joined into the facts of its log.

Invariant: a window that an earlier audit has read is read again only if its segment has changed, or if it is the last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kpybroker.machines.audit.findings import DAMAGE, NOTE, OFFSETS, SEQUENCES, SINCE, AuditFinding, BytePlace
from kpybroker.machines.audit.kept import KeptFacts
from kpybroker.machines.audit.sources import AuditedReplica, AuditSource, AuditTask, ReplicaFacts
from kpybroker.machines.audit.stretch import Stretch, join
from kpybroker.machines.audit.windows import WINDOW_OFFSETS, AuditWindow


class Plan(NamedTuple):
    """The work on one replica."""

    replica: AuditedReplica
    tasks: list[AuditTask]
    kept: KeptFacts | None
    """The facts of the earlier audit, as far as they hold."""
    identities: Mapping[int, tuple[int, ...]]
    again: list[tuple[int, int]]
    """The ranges of old offsets whose segments have changed."""
    is_same: bool = False
    """Whether nothing has changed since the earlier audit."""
    findings: tuple[AuditFinding, ...] = ()


class JoinedFacts(NamedTuple):
    """The facts of one replica's log, what to keep of them, and what was found while joining."""

    whole: Stretch
    kept: KeptFacts
    findings: list[AuditFinding]


def plan(source: AuditSource, replica: AuditedReplica, kept: KeptFacts | None, *, deep: bool) -> Plan:
    """Plan the work on a replica. May raise OSError."""
    identities = source.identities(replica)
    findings: list[AuditFinding] = []
    if kept is not None and kept.topic_id != replica.topic_id:
        findings.append(_since(NOTE, replica, 0, "is another topic of the same name: it is read from the beginning"))
        kept = None
    if kept is not None and min(replica.end, replica.log_end) < kept.whole.next_offset:
        ends = min(replica.end, replica.log_end)
        text = f"ends at {ends}, and had {kept.whole.next_offset} offsets at the last audit"
        findings.append(_since(DAMAGE, replica, ends, text))
        kept = None
    if kept is None or kept.at_cut is None:
        is_same = kept is not None and _is_same(kept, replica, identities)
        tasks = [] if is_same else source.tasks(replica, replica.start, deep=deep)
        return Plan(replica, _with_cut(tasks, replica), kept, identities, [], is_same, tuple(findings))
    is_same = _is_same(kept, replica, identities)
    again = _in_one(_changed(kept, identities, replica.start))
    tasks = [] if is_same else source.tasks(replica, kept.cut, deep=deep)
    if tasks:
        tasks[0] = tasks[0]._replace(next_offset=kept.at_cut.next_offset)
    tasks = _with_cut(tasks, replica)
    for start, end in again:
        for task in source.tasks(replica, max(start, replica.start), deep=deep):
            if task.start < end:
                share = (min(task.end, end) - task.start) / max(min(task.end, replica.log_end) - task.start, 1)
                size_bytes = int(task.size_bytes * min(share, 1))
                tasks.append(task._replace(end=min(task.end, end), cuts=(), size_bytes=size_bytes))
    return Plan(replica, tasks, kept, identities, again, is_same, tuple(findings))


def _with_cut(tasks: list[AuditTask], replica: AuditedReplica) -> list[AuditTask]:
    return [task._replace(cuts=(replica.last_window,)) for task in tasks]


def _is_same(kept: KeptFacts, replica: AuditedReplica, identities: Mapping[int, tuple[int, ...]]) -> bool:
    return bool(identities) and dict(kept.identities) == dict(identities) and kept.end == replica.end


def _changed(kept: KeptFacts, identities: Mapping[int, tuple[int, ...]], start: int) -> Iterator[tuple[int, int]]:
    """The ranges of windows before the cut whose segments are not those of the earlier audit. A source without numbers
    for its segments has none."""
    old = sorted(kept.identities)
    for base, end in pairwise([*old, kept.whole.next_offset]):
        is_active = base == old[-1]
        identity = identities.get(base)
        if is_active and identity is not None and identity[0] >= kept.identities[base][0]:
            continue  # it has grown, as the active segment does
        if end <= start or identity == kept.identities[base]:
            continue
        first = max(base // WINDOW_OFFSETS * WINDOW_OFFSETS, kept.whole.start)
        last = min(-(-end // WINDOW_OFFSETS) * WINDOW_OFFSETS, kept.cut)
        if first < last:
            yield first, last


def _in_one(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ascending ranges, those that touch joined: several segments may lie in one window."""
    whole: list[tuple[int, int]] = []
    for start, end in ranges:
        if whole and start <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(end, whole[-1][1])
        else:
            whole.append((start, end))
    return whole


def joined(
    source: AuditSource, planned: Plan, read: Sequence[tuple[AuditTask, Stretch]], facts: ReplicaFacts
) -> JoinedFacts:
    """Join the stretches of a replica, with those that an earlier audit has kept. May raise OSError."""
    replica, kept = planned.replica, planned.kept
    findings = list(planned.findings)
    if kept is not None and planned.is_same:
        return JoinedFacts(kept.whole, kept, findings)
    old, old_end = (None, 0) if kept is None else (kept.at_cut, kept.cut)
    again = [stretch for task, stretch in read if task.end <= old_end]
    fresh = [stretch for task, stretch in read if task.end > old_end]
    if old is not None:
        old, changes = _compared_again(replica, old, planned.again, again, facts)
        findings += changes
    begin = [] if old is None else [old]
    cut = max(replica.last_window, old_end)
    before = join([*begin, *(each for each in fresh if each.start < cut)])
    after = [each for each in fresh if each.start >= cut]
    at_cut = None if before is None or not before.batches else before.finished()
    whole = join([*(() if before is None else (before,)), *after])
    whole = Stretch(replica.start, replica.start) if whole is None else whole.finished()
    findings += _gaps(replica, whole.gaps, facts)
    findings += _missing(replica, whole, facts, 0 if kept is None else kept.whole.missing_to)
    findings += _breaks(replica, whole, facts)
    findings += source.check_around(replica, whole, old_end)
    keep = KeptFacts(replica.topic_id, cut, at_cut, whole, replica.end, planned.identities)
    return JoinedFacts(whole, keep, findings)


def _compared_again(
    replica: AuditedReplica, old: Stretch, ranges: Iterable[tuple[int, int]], read: list[Stretch], facts: ReplicaFacts
) -> tuple[Stretch, list[AuditFinding]]:
    """Replace old windows whose segments have changed. A change that compaction does not explain is a finding."""
    again = join(read)
    fresh = {window.number: window.sealed() for window in (again.windows if again is not None else ())}
    findings = []
    merged: list[AuditWindow] = []
    lost = 0
    for window in old.windows:
        first, last = window.number * WINDOW_OFFSETS, (window.number + 1) * WINDOW_OFFSETS
        if not any(start < last and first < end for start, end in ranges):
            merged.append(window)
            continue
        found = fresh.get(window.number)
        is_partial = window.base < replica.start or window.base < facts.log_start
        if found is not None:
            merged.append(found)
        lost += window.records - (0 if found is None else found.records)
        if (found is not None and found.digest == window.digest) or is_partial or last <= facts.cleaned_to:
            continue
        text = f"the batches of the offsets {window.base} to {window.next_offset - 1} have changed since the last audit"
        findings.append(_since(DAMAGE, replica, window.base, text))
    return old._replace(windows=tuple(merged), records=old.records - lost), findings


def _since(level: str, replica: AuditedReplica, offset: int, text: str) -> AuditFinding:
    return AuditFinding(level, SINCE, *replica.spot, replica.label, replica.directory, -1, offset, text)


def _gaps(
    replica: AuditedReplica, gaps: Iterable[tuple[int, int, BytePlace]], facts: ReplicaFacts
) -> Iterator[AuditFinding]:
    """The gaps that neither deletion nor compaction explains."""
    for start, end, place in gaps:
        if end <= facts.log_start or end <= facts.cleaned_to:
            continue
        where = place if place.path else BytePlace(replica.directory)
        what = f"offset {start} is" if end - start == 1 else f"the offsets {start} to {end - 1} are"
        if facts.was_mended:
            text, level = f"{what} not there: a repair has taken them out", NOTE
        else:
            text, level = f"{what} lost: the log was not compacted there", DAMAGE
        yield AuditFinding(level, OFFSETS, *replica.spot, replica.label, *where, start, text)


def _missing(replica: AuditedReplica, whole: Stretch, facts: ReplicaFacts, known_to: int) -> Iterator[AuditFinding]:
    if whole.missing_to > max(facts.cleaned_to, facts.log_start, known_to):
        text = f"{whole.missing} offsets have no record, though the log was not compacted there"
        spot = (*replica.spot, replica.label)
        yield AuditFinding(NOTE, OFFSETS, *spot, *whole.missing_place, whole.missing_to, text)


def _breaks(replica: AuditedReplica, whole: Stretch, facts: ReplicaFacts) -> Iterator[AuditFinding]:
    for each in whole.breaks:
        if each.offset < facts.cleaned_to:
            continue
        text = f"producer {each.producer_id}: {each.text} at offset {each.offset}"
        spot = (*replica.spot, replica.label)
        yield AuditFinding(DAMAGE, SEQUENCES, *spot, *each.place, each.offset, text)
