"""One replica: the work that a later audit has, and what its joined facts contradict; and replicas compared."""

from typing import Any

import pytest
from log_making import NOW_MS, make_batch, make_marker
from memory_logs import MemoryLogs

from kpybroker.machines.audit import joining, replicas, sources, walk, windows
from kpybroker.machines.audit.findings import (
    BYTES,
    DAMAGE,
    NOTE,
    OFFSETS,
    REPLICAS,
    SEQUENCES,
    SINCE,
    TABLES,
    AuditFinding,
)
from kpybroker.machines.audit.kept import KeptFacts
from kpybroker.machines.audit.replicas import MOST_DIFFERENCES
from kpybroker.machines.audit.running import AuditScope, NoSuchTopic, Result, audit, merged
from kpybroker.machines.audit.sources import AuditedReplica, ReplicaFacts
from kpybroker.machines.audit.stretch import Stretch
from kpybroker.machines.audit.tables import TableRange
from kpywire.record import Record, build_batch

Lines = list[tuple[str, str, int, str]]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of eight offsets."""
    for module in (joining, replicas, sources, walk, windows):
        monkeypatch.setattr(module, "WINDOW_OFFSETS", 8)
    monkeypatch.setattr(walk, "SHIFT", 3)


def batches(start: int, end: int, **more: int) -> list[bytes]:
    """Batches of two offsets."""
    return [make_batch(base, 2, **more) for base in range(start, end, 2)]


def lines(result: Result) -> Lines:
    return [(each.level, each.claim, each.offset, each.text) for each in result.findings]


def first_audit(logs: MemoryLogs, *data: bytes, **numbers: tuple[int, ...]) -> tuple[AuditedReplica, Result]:
    replica = logs.add("a", *data)
    logs.numbers[replica.key] = {int(base[1:]): each for base, each in numbers.items()}
    return replica, logs.audited()


# Plans.


def planned(
    logs: MemoryLogs, replica: AuditedReplica, kept: KeptFacts | None
) -> tuple[joining.Plan, list[tuple[int, int]]]:
    plan = joining.plan(logs, replica, kept, deep=False)
    return plan, [(task.start, min(task.end, 99)) for task in plan.tasks]


def test_a_first_audit_reads_everything_and_cuts_at_the_last_window() -> None:
    logs = MemoryLogs()
    replica = logs.add("a", *batches(0, 20))
    plan, tasks = planned(logs, replica, None)
    assert tasks == [(0, 99)]
    assert [task.cuts for task in plan.tasks] == [(16,)]
    assert (plan.again, plan.is_same, plan.findings) == ([], False, ())


def test_unchanged_windows_are_not_read_again() -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 20), s0=(5, 1), s12=(7, 1))
    kept = first.summary.replicas[replica.key]
    plan, tasks = planned(logs, replica, kept)
    assert (plan.is_same, tasks, plan.again) == (True, [], [])
    assert not planned(logs, replica._replace(end=20), kept)[0].is_same, "another end"


def test_a_grown_log_is_read_from_its_last_window() -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 20), s0=(5, 1), s12=(7, 1))
    kept = first.summary.replicas[replica.key]
    logs.numbers[replica.key] = {0: (5, 1), 12: (9, 2)}
    plan, tasks = planned(logs, replica, kept)
    assert (tasks, plan.again, plan.is_same) == ([(16, 99)], [], False)
    assert plan.tasks[0].next_offset == 16
    for number in ((7, 2), (9, 0)):
        logs.numbers[replica.key] = {0: (5, 1), 12: number}
        assert planned(logs, replica, kept)[0].again == [], "an active segment may be touched"
    logs.numbers[replica.key] = {0: (5, 1), 12: (6, 9)}
    assert planned(logs, replica, kept)[0].again == [(8, 16)], "but not become smaller"
    logs.numbers[replica.key] = {0: (5, 1), 12: (7, 1), 20: (3, 1)}
    assert planned(logs, replica, kept)[1] == [(16, 99)]


@pytest.mark.parametrize(
    ("numbers", "again"),
    [
        ({0: (5, 2), 4: (5, 1), 12: (5, 1), 18: (5, 1)}, [(0, 8)]),
        ({0: (5, 1), 4: (5, 2), 12: (5, 1), 18: (5, 1)}, [(0, 16)]),
        ({0: (5, 2), 4: (5, 2), 12: (5, 1), 18: (5, 1)}, [(0, 16)]),
        ({0: (5, 1), 4: (5, 1), 12: (5, 2), 18: (5, 1)}, [(8, 16)]),
        ({0: (5, 1), 4: (5, 1), 12: (5, 1), 18: (4, 1)}, []),
        ({0: (5, 1), 12: (5, 1), 18: (5, 1)}, [(0, 16)]),
        ({0: (5, 2), 4: (5, 1), 12: (5, 2), 18: (5, 1)}, [(0, 16)]),
    ],
    ids=["first", "second", "both", "third", "active", "gone", "two"],
)
def test_windows_of_changed_segments_are_read_again(
    numbers: dict[int, tuple[int, ...]], again: list[tuple[int, int]]
) -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 20), s0=(5, 1), s4=(5, 1), s12=(5, 1), s18=(5, 1))
    logs.numbers[replica.key] = numbers
    plan, tasks = planned(logs, replica, first.summary.replicas[replica.key])
    assert plan.again == again
    assert tasks == [(16, 99), *again]
    assert all(task.cuts == () for task in plan.tasks[1:])
    total = sum(map(len, batches(0, 20)))
    sizes = [int(total * (end - start) / (20 - 0)) for start, end in again if start == 0]
    assert [task.size_bytes for task in plan.tasks[1:] if task.start == 0] == sizes


def test_segments_below_the_start_are_gone_and_not_changed() -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 20), s0=(5, 1), s8=(5, 1), s16=(5, 1))
    kept = first.summary.replicas[replica.key]
    logs.numbers[replica.key] = {8: (5, 1), 16: (5, 1)}
    plan, _ = planned(logs, replica._replace(start=8), kept)
    assert plan.again == []
    plan, _ = planned(logs, replica._replace(start=7), kept)
    assert plan.again == [(0, 8)]


def test_another_topic_of_the_same_name_is_read_from_the_beginning() -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 20), s0=(5, 1))
    plan, tasks = planned(logs, replica._replace(topic_id="other"), first.summary.replicas[replica.key])
    (found,) = plan.findings
    assert (found.level, found.claim, found.offset) == (NOTE, SINCE, 0)
    assert (tasks, plan.kept) == ([(0, 99)], None)


@pytest.mark.parametrize(("ends", "is_shorter"), [({"log_end": 19}, True), ({"end": 19}, True), ({}, False)])
def test_a_log_that_is_shorter_than_it_was_has_lost_something(ends: dict[str, int], is_shorter: bool) -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 20), s0=(5, 1))
    plan, _ = planned(logs, replica._replace(**ends), first.summary.replicas[replica.key])
    assert (plan.kept is None) is is_shorter
    reported = [(each.level, each.offset, each.text) for each in plan.findings]
    text = "ends at 19, and had 20 offsets at the last audit"
    assert reported == ([(DAMAGE, 19, text)] if is_shorter else [])


def test_a_log_of_one_window_has_nothing_before_its_cut() -> None:
    logs = MemoryLogs()
    replica, first = first_audit(logs, *batches(0, 6), s0=(5, 1))
    kept = first.summary.replicas[replica.key]
    assert (kept.at_cut, kept.cut, kept.whole.next_offset) == (None, 0, 6)
    assert planned(logs, replica, kept)[0].is_same
    logs.numbers[replica.key] = {0: (6, 1)}
    plan, tasks = planned(logs, replica, kept)
    assert (tasks, plan.again, plan.is_same) == ([(0, 99)], [], False)


# Joined facts.


def later(logs: MemoryLogs, first: Result) -> Result:
    logs.read_bytes = 0
    return logs.audited(since=first.summary)


def test_a_later_audit_joins_what_it_kept_with_what_is_new() -> None:
    logs = MemoryLogs()
    data = batches(0, 30)
    replica, first = first_audit(logs, *data[:10], s0=(5, 1))
    logs.add("a", *data)
    logs.numbers[replica.key] = {0: (9, 1)}
    found = later(logs, first)
    assert found.findings == []
    assert (found.records, found.read_bytes) == (30, sum(map(len, data[8:])))
    assert found.summary.roots() == logs.audited().summary.roots()


def test_a_later_audit_of_brokers_that_run_has_no_numbers_and_reads_what_is_new() -> None:
    logs = MemoryLogs()
    data = batches(0, 30)
    _, first = first_audit(logs, *data[:10])
    assert later(logs, first).read_bytes == sum(map(len, data[8:10])), "its last window again"
    logs.add("a", *data)
    found = later(logs, first)
    assert (found.findings, found.records, found.read_bytes) == ([], 30, sum(map(len, data[8:])))


def test_unchanged_logs_keep_their_facts() -> None:
    logs = MemoryLogs()
    _, first = first_audit(logs, *batches(0, 20), s0=(5, 1))
    found = later(logs, first)
    assert (found.read_bytes, found.records, found.size_bytes) == (0, 20, first.size_bytes)
    assert found.summary == first.summary


@pytest.mark.parametrize("segment", [0, 8])
def test_windows_that_were_copied_are_read_again_and_stay_what_they_were(segment: int) -> None:
    logs = MemoryLogs()
    data = batches(0, 20)
    replica, first = first_audit(logs, *data, s0=(5, 1), s8=(5, 1), s16=(5, 1))
    logs.numbers[replica.key][segment] = (5, 2)
    found = later(logs, first)
    assert (found.findings, found.records) == ([], 20)
    assert found.summary.roots() == first.summary.roots()
    assert found.read_bytes == sum(map(len, data[:6])), "one window of four batches, and the last one"
    logs.logs[replica.key] = [*data[: segment // 2], make_batch(segment, 2, value_bytes=50), *data[segment // 2 + 1 :]]
    changed = later(logs, first)
    (finding,) = changed.findings
    assert (finding.offset, finding.byte, finding.path) == (segment, -1, "/a")
    assert finding.text.startswith(f"the batches of the offsets {segment} to {segment + 7} have changed")
    assert changed.records == 20
    assert changed.summary.roots() == logs.audited().summary.roots()


def test_several_changed_windows_are_several_findings() -> None:
    logs = MemoryLogs()
    data = batches(0, 28)
    replica, first = first_audit(logs, *data, s0=(5, 1), s24=(5, 1))
    logs.numbers[replica.key][0] = (5, 2)
    logs.logs[replica.key] = [
        make_batch(base, 2, value_bytes=50 if base in (0, 16) else 100) for base in range(0, 28, 2)
    ]
    assert [each.offset for each in later(logs, first).findings] == [0, 16]
    logs.known[replica.key] = ReplicaFacts(cleaned_to=8)
    assert [each.offset for each in later(logs, first).findings] == [16]


def test_unexplained_gaps_are_reported_as_lost_records() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 2), *batches(4, 8), *batches(10, 14), facts=ReplicaFacts(cleaned_to=4))
    assert [each.offset for each in logs.audited().findings] == [8]


def test_changed_windows_are_compared_with_what_they_were() -> None:
    logs = MemoryLogs()
    data = batches(0, 20)
    replica, first = first_audit(logs, *data, s0=(5, 1), s8=(5, 1), s16=(5, 1))
    logs.numbers[replica.key][0] = (5, 2)
    assert later(logs, first).findings == [], "it was copied"
    changed = [make_batch(0, 2, value_bytes=50), *data[1:]]
    logs.logs[replica.key] = changed
    text = "the batches of the offsets 0 to 7 have changed since the last audit"
    assert lines(later(logs, first)) == [(DAMAGE, SINCE, 0, text)]
    logs.known[replica.key] = ReplicaFacts(cleaned_to=8)
    assert later(logs, first).findings == [], "compaction does so"
    logs.known[replica.key] = ReplicaFacts(cleaned_to=7)
    assert len(later(logs, first).findings) == 1
    logs.known[replica.key] = ReplicaFacts(log_start=1)
    assert later(logs, first).findings == [], "its beginning is deleted"
    logs.known[replica.key] = ReplicaFacts()
    logs.logs[replica.key] = data[4:]
    gone = later(logs, first)
    assert (DAMAGE, SINCE, 0, text) in lines(gone)
    assert gone.records == 12


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        (ReplicaFacts(), [(DAMAGE, OFFSETS, 2, "the offsets 2 to 3 are lost: the log was not compacted there")]),
        (
            ReplicaFacts(was_mended=True),
            [(NOTE, OFFSETS, 2, "the offsets 2 to 3 are not there: a repair has taken them out")],
        ),
        (ReplicaFacts(log_start=4), []),
        (ReplicaFacts(cleaned_to=4), []),
        (
            ReplicaFacts(log_start=3),
            [(DAMAGE, OFFSETS, 2, "the offsets 2 to 3 are lost: the log was not compacted there")],
        ),
        (
            ReplicaFacts(cleaned_to=3),
            [(DAMAGE, OFFSETS, 2, "the offsets 2 to 3 are lost: the log was not compacted there")],
        ),
    ],
)
def test_a_gap_is_lost_unless_it_was_deleted_or_compacted(facts: ReplicaFacts, found: Lines) -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 2), *batches(4, 10), facts=facts)
    assert lines(logs.audited()) == found


def test_a_gap_of_one_offset_has_words_of_its_own() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 2), *batches(3, 9))
    result = logs.audited()
    assert lines(result) == [(DAMAGE, OFFSETS, 2, "offset 2 is lost: the log was not compacted there")]
    assert (result.findings[0].path, result.findings[0].byte) == ("/a/log", len(make_batch(0, 2)))


def thinned(base: int, delta: int) -> bytes:
    """A batch of one record and ``delta`` offsets behind it."""
    return build_batch([Record(timestamp=NOW_MS, value=b"v", offset=base + delta)], base_offset=base)


@pytest.mark.parametrize(
    ("facts", "is_noted"),
    [
        (ReplicaFacts(), True),
        (ReplicaFacts(cleaned_to=4), True),
        (ReplicaFacts(cleaned_to=5), False),
        (ReplicaFacts(log_start=5), False),
    ],
)
def test_offsets_without_records_are_noted_where_nothing_was_compacted(facts: ReplicaFacts, is_noted: bool) -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 2), thinned(2, 2), *batches(5, 7), facts=facts)
    text = "2 offsets have no record, though the log was not compacted there"
    assert lines(logs.audited()) == ([(NOTE, OFFSETS, 5, text)] if is_noted else [])


@pytest.mark.parametrize(("cleaned_to", "is_found"), [(0, True), (2, True), (3, False)])
def test_a_broken_sequence_is_damage_where_nothing_was_compacted(cleaned_to: int, is_found: bool) -> None:
    logs = MemoryLogs()
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    data = [make_batch(base, 1, base_sequence=sequence, **producer) for base, sequence in ((0, 0), (1, 1), (2, 5))]
    logs.add("a", *data, facts=ReplicaFacts(cleaned_to=cleaned_to))
    text = "producer 7: sequence 5 follows 1 of epoch 0 at offset 2"
    assert lines(logs.audited()) == ([(DAMAGE, SEQUENCES, 2, text)] if is_found else [])


def test_unexplained_breaks_are_reported_as_damage() -> None:
    logs = MemoryLogs()
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    data = [make_batch(base, 1, base_sequence=3 * base, **producer) for base in range(3)]
    logs.add("a", *data, facts=ReplicaFacts(cleaned_to=2))
    assert [each.offset for each in logs.audited().findings] == [2]


# Replicas of a partition.


def two(ours: list[bytes], theirs: list[bytes], mark: int = 20, **more: Any) -> tuple[MemoryLogs, Result]:
    logs = MemoryLogs()
    logs.add("a", *ours, high_watermark=mark, **more)
    logs.add("b", *theirs, high_watermark=mark, **more)
    return logs, logs.audited()


def test_equal_replicas_are_counted_as_such() -> None:
    _, result = two(batches(0, 20), batches(0, 20))
    assert (result.partitions, result.most_replicas, result.compared, result.equal) == (1, 2, 1, 1)
    assert (result.findings, result.records, result.damages) == ([], 20, 0)
    assert result.size_bytes == 2 * sum(map(len, batches(0, 20)))


def test_a_replica_that_differs_is_named_with_the_offsets() -> None:
    other = [make_batch(0, 2), make_batch(2, 2, value_bytes=50), *batches(4, 20)]
    _, result = two(batches(0, 20), other)
    ((level, claim, offset, text),) = lines(result)
    assert (level, claim, offset) == (DAMAGE, REPLICAS, 2)
    assert text.startswith("differs from a at offset 2 to 3: another ")
    assert (result.compared, result.equal, result.damages) == (1, 0, 1)
    _, result = two(batches(0, 20), other, mark=-1)
    ((level, _, _, text),) = lines(result)
    assert level == NOTE
    assert text.endswith(" (perhaps above the high watermark, which is not known)")
    _, result = two(batches(0, 20), other, mark=2)
    assert result.findings == [], "above the high watermark replicas may differ"
    _, result = two(batches(0, 20), other, mark=3)
    assert len(result.findings) == 1


def test_no_records_are_compared_with_a_high_watermark_of_0() -> None:
    assert two(batches(0, 20), batches(0, 20, value_bytes=50), mark=0)[1].findings == []
    single = two([make_batch(0), make_batch(1)], [make_batch(0), make_batch(1, value_bytes=9)], mark=2)
    ((_, _, offset, text),) = lines(single[1])
    assert (offset, text.split(":")[0]) == (1, "differs from a at offset 1")


def test_only_so_many_differences_of_a_pair_are_listed() -> None:
    for wrong in (MOST_DIFFERENCES, MOST_DIFFERENCES + 1):
        other = [
            make_batch(base, 2, value_bytes=50) if base % 4 == 2 and base // 4 < wrong else make_batch(base, 2)
            for base in range(0, 60, 2)
        ]
        _, result = two(batches(0, 60), other, mark=60)
        texts = [text for _, _, _, text in lines(result)]
        assert len(texts) == min(wrong, MOST_DIFFERENCES) + (wrong > MOST_DIFFERENCES)
        assert ("more differences follow" in texts) is (wrong > MOST_DIFFERENCES)


def test_a_replica_that_is_behind_the_others_is_noted_and_one_that_lost_something_is_damaged() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 20), high_watermark=20)
    logs.add("b", *batches(0, 12), high_watermark=10)
    assert lines(logs.audited()) == [(NOTE, REPLICAS, 12, "ends at 12, 8 offsets behind the others")]
    logs.add("b", *batches(0, 12), high_watermark=12)
    assert [each.level for each in logs.audited().findings] == [NOTE]
    logs.add("b", *batches(0, 12), high_watermark=14)
    lost = "ends at 12, though its high watermark is 14"
    assert lines(logs.audited()) == [(DAMAGE, REPLICAS, 12, lost)]
    logs.add("b", *batches(0, 12), high_watermark=14, is_running=True)
    assert lines(logs.audited()) == [], "it may be on its way"
    logs.add("b", *batches(0, 20), high_watermark=10)
    assert lines(logs.audited()) == []


def test_a_single_replica_is_not_compared() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 12), high_watermark=12)
    result = logs.audited()
    assert (result.compared, result.equal, result.findings) == (0, 0, [])
    logs.add("a", *batches(0, 12), high_watermark=13)
    assert [each.level for each in logs.audited().findings] == [DAMAGE]


def test_the_majority_is_the_reference() -> None:
    logs = MemoryLogs()
    logs.add("a", make_batch(0, 2, value_bytes=50), *batches(2, 20), high_watermark=18)
    for label in ("b", "c"):
        logs.add(label, *batches(0, 18), high_watermark=18)
    (found,) = logs.audited().findings
    assert found.replica == "a"
    assert found.text.startswith("differs from b at offset 0")


def test_a_replica_with_much_that_no_other_has_is_not_the_reference() -> None:
    logs = MemoryLogs()
    logs.add("a", make_batch(0, 2, value_bytes=50), *batches(2, 60), high_watermark=18)
    for label in ("b", "c"):
        logs.add(label, *batches(0, 18), high_watermark=18)
    assert [each.replica for each in logs.audited().findings] == ["a"]


def test_differences_after_damage_are_found() -> None:
    logs = MemoryLogs()
    other = [make_batch(base, 2, value_bytes=50 if base == 10 else 100) for base in range(0, 20, 2) if base != 2]
    logs.add("a", *batches(0, 20), high_watermark=20)
    logs.add("b", *other, high_watermark=20)
    assert [(each.claim, each.offset) for each in logs.audited().findings] == [(OFFSETS, 2), (REPLICAS, 10)]


def test_damaged_ranges_are_not_compared() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 20), high_watermark=20)
    logs.add("b", *batches(0, 2), *batches(4, 20), high_watermark=20)
    assert [(each.replica, each.claim, each.offset) for each in logs.audited().findings] == [("b", OFFSETS, 2)]


def test_replicas_are_compared_from_where_both_begin() -> None:
    for facts in (ReplicaFacts(log_start=2), ReplicaFacts()):
        logs = MemoryLogs()
        logs.add("a", make_batch(0, 2, value_bytes=50), *batches(2, 20), high_watermark=20)
        start = 0 if facts.log_start else 2
        logs.add("b", *batches(start, 20), high_watermark=20, start=start, facts=facts)
        assert lines(logs.audited()) == []


def test_unread_ranges_do_not_count_as_equal() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 20), high_watermark=20)
    replica = logs.add("b", *batches(0, 20), high_watermark=20)
    logs.unread.add(replica.key)
    result = logs.audited()
    assert (result.compared, result.equal, result.findings) == (1, 0, [])


# The whole audit.


def test_only_the_topics_that_were_asked_for_are_audited() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 20))
    logs.add("a", *batches(0, 4), topic="u")
    assert (logs.audited().partitions, logs.audited().records) == (2, 24)
    assert logs.audited(topics=("u",)).records == 4
    with pytest.raises(NoSuchTopic, match="there is no topic v"):
        logs.audited(topics=("u", "v"))


def test_an_audit_says_first_how_much_it_will_read() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 20))
    logs.add("b", *batches(0, 4))
    seen: list[int] = []
    audit(logs, AuditScope(), lambda read, tasks, _: map(read, tasks), lambda _: None, seen.append)
    assert seen == [sum(map(len, [*batches(0, 20), *batches(0, 4)]))]


def test_an_audit_of_nothing() -> None:
    result = MemoryLogs().audited()
    assert (result.partitions, result.most_replicas, result.records, result.equal) == (0, 0, 0, 0)


def test_a_deep_audit_does_not_go_on_from_a_shallow_one() -> None:
    logs = MemoryLogs()
    _, first = first_audit(logs, *batches(0, 20), s0=(5, 1))
    assert logs.audited(since=first.summary).read_bytes == 0
    assert logs.audited(since=first.summary, deep=True).read_bytes > 0
    deep = logs.audited(deep=True).summary
    assert logs.audited(since=deep, deep=True).read_bytes == 0


def test_tables_are_compared_with_the_best_replica() -> None:
    logs = MemoryLogs()
    logs.add("a", *batches(0, 10), high_watermark=10)
    logs.add("b", *batches(0, 20), high_watermark=10)
    ranges = (TableRange("lake", "t", 0, 0, 12, 12), TableRange("lake", "gone", 0, 3, 5, 2))
    result = logs.audited(ranges=ranges)
    assert lines(result)[0] == (DAMAGE, TABLES, 3, "table lake covers a partition that is not there")
    assert (len(result.findings), result.ranges, result.records) == (1, 2, 20)
    (wrong,) = logs.audited(ranges=(TableRange("lake", "t", 0, 0, 12, 11),)).findings
    assert wrong.text == "table lake has 11 rows for the offsets 0 to 11, 1 fewer than the log"


def test_keys_are_compared_on_request_up_to_where_the_log_was_compacted() -> None:
    data = [build_batch([Record(timestamp=NOW_MS, key=b"k", value=b"v")], base_offset=base) for base in range(3)]
    logs = MemoryLogs()
    for unique_to, repeated in ((0, []), (1, []), (2, [1]), (9, [1, 2])):
        logs.add("a", *data, facts=ReplicaFacts(unique_to=unique_to))
        assert logs.audited().findings == []
        assert [each.offset for each in logs.audited(keys=True).findings] == repeated


def test_findings_of_several_replicas_are_one_and_damage_comes_first() -> None:
    def finding(level: str, replica: str, offset: int, text: str = "x") -> AuditFinding:
        return AuditFinding(level, BYTES, "t", 0, replica, f"/{replica}", 1, offset, text)

    found = merged(
        [finding(NOTE, "a", 1), finding(DAMAGE, "b", 9), finding(DAMAGE, "a", 9), finding(DAMAGE, "c", 3),
         finding(DAMAGE, "", 5, "z")]
    )  # fmt: skip
    assert [(each.level, each.replica, each.offset) for each in found] == [
        (DAMAGE, "c", 3),
        (DAMAGE, "", 5),
        (DAMAGE, "a, b", 9),
        (NOTE, "a", 1),
    ]


def test_a_transaction_that_never_ends_hangs_where_its_coordinator_knows_nothing_of_it() -> None:
    logs = MemoryLogs()
    opened = make_batch(2, 2, producer_id=7, transactional=True)
    logs.add("a", *batches(0, 2), opened, *batches(4, 6))
    logs.add("a", topic="__transaction_state")
    result = logs.audited()
    assert [each.claim for each in result.findings] == ["transactions"]
    logs.add("a", *batches(0, 2), opened, make_marker(4, 7, commit=True))
    assert logs.audited().findings == [] or "marker" in logs.audited().findings[0].text


def test_an_empty_stretch_begins_where_its_replica_does() -> None:
    logs = MemoryLogs()
    replica = logs.add("a", start=5, log_end=5)
    result = logs.audited()
    assert result.summary.replicas[replica.key].whole == Stretch(5, 5)
