"""A mirror with equal offsets has every batch of its source; each kind of difference is found from its offset on."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from log_making import NOW_MS, headers_of, make_batch, make_marker
from memory_logs import MemoryLogs

from kpybroker.machines.audit import equality
from kpybroker.machines.audit.equality import MOST_RANGES, ComparedBatches, compare
from kpybroker.machines.audit.findings import DAMAGE, NOTE, BytePlace
from kpybroker.machines.audit.replicas import Placed
from kpybroker.machines.audit.running import NoSuchTopic
from kpybroker.machines.audit.sources import ReplicaFacts
from kpybroker.pipeline.audit import equality as proving
from kpybroker.pipeline.audit.equality import Equality, prove
from kpystorage.reading import StoredBatch
from kpywire.compression import GZIP
from kpywire.record import Record, build_batch


def batch(base: int, *values: bytes, **fields: Any) -> bytes:
    records = [Record(timestamp=NOW_MS + number, key=b"k", value=value) for number, value in enumerate(values)]
    return build_batch(records, base_offset=base, **{"partition_leader_epoch": 3, **fields})


LOG = (batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d", b"e", b"f"), batch(6, b"g"), batch(7, b"h"))


def placed(*batches: bytes) -> Iterator[Placed]:
    at = 0
    for each in batches:
        yield BytePlace("/log", at), StoredBatch(headers_of(each)[0], memoryview(each))
        at += len(each)


def compared(source: Sequence[bytes], mirror: Sequence[bytes], cleaned_to: int = 0) -> ComparedBatches:
    return compare(placed(*source), placed(*mirror), cleaned_to)


def test_equal_batches_have_no_range() -> None:
    assert compared(LOG, LOG) == ComparedBatches(5, (), False, False)


@pytest.mark.parametrize(
    ("planted", "text"),
    [
        (batch(3, b"d", b"X", b"f"), "another value of offset 4 at byte"),
        (batch(3, b"d", b"e", b"f", partition_leader_epoch=4), "another leader epoch in its batch of offset 3"),
        (batch(3, b"d", b"e", b"f", codec=GZIP), "another length in its batch of offset 3"),
        (batch(3, b"d", b"e", b"f", producer_id=7, producer_epoch=0, base_sequence=0), "another producer id"),
        (batch(3, b"d", b"e", b"f", timestamp_type=1, log_append_time_ms=NOW_MS + 2), "another attributes"),
        (make_marker(3, 7, commit=True), "another length"),
    ],
)
def test_a_batch_that_differs_is_named_with_the_field(planted: bytes, text: str) -> None:
    mirror = [*LOG[:2], planted, *LOG[3:]]
    found = compared(LOG, mirror)
    assert found.equal == 4
    (only,) = found.ranges
    assert (only.start, only.end, only.batches) == (3, 6, 1)
    assert only.text.startswith(text)
    assert (found.begins_differing, found.ends_differing) == (False, False)
    assert only.place.path == "/log"
    assert sum(map(len, LOG[:2])) <= only.place.byte <= sum(map(len, LOG[:3]))


def test_a_commit_and_an_abort_differ() -> None:
    one, two = make_marker(0, 7, commit=True), make_marker(0, 7, commit=False)
    (found,) = compared([one], [two]).ranges
    assert found.start == 0


def test_a_batch_that_the_mirror_lacks_is_a_range() -> None:
    (found,) = compared(LOG, [*LOG[:2], *LOG[3:]]).ranges
    assert (found.start, found.end, found.text) == (3, 6, "it lacks the batch of offset 3")
    assert compared(LOG, LOG[:-1]).ends_differing
    assert compared(LOG, LOG[1:]).begins_differing


def test_a_batch_that_the_source_lacks_is_a_range() -> None:
    (found,) = compared([*LOG[:2], *LOG[3:]], LOG).ranges
    assert (found.start, found.end, found.text) == (3, 6, "its source has no valid batch of offset 3")
    assert found.place == BytePlace("/log", sum(map(len, LOG[:2])))


def test_the_same_records_in_other_batches_differ() -> None:
    together = batch(2, b"c", b"d", b"e", b"f")
    (found,) = compared(LOG, [LOG[0], together, *LOG[3:]]).ranges
    assert (found.start, found.end, found.batches) == (2, 6, 2)


def test_batches_that_differ_in_a_row_are_one_range() -> None:
    other = [LOG[0], batch(2, b"X"), batch(3, b"Y", b"e", b"f"), LOG[3], batch(7, b"Z")]
    found = compared(LOG, other)
    assert [(each.start, each.end, each.batches) for each in found.ranges] == [(2, 6, 2), (7, 8, 1)]
    assert found.ranges[0].text.startswith("another value of offset 2")
    assert found.equal == 2


def test_ranges_are_joined_over_the_borders_of_tasks() -> None:
    other = [LOG[0], batch(2, b"X"), batch(3, b"Y", b"e", b"f"), LOG[3], LOG[4]]
    parts = [compared(LOG[:2], other[:2]), compared((), ()), compared(LOG[2:], other[2:])]
    assert equality.joined(parts) == compared(LOG, other)
    apart = [compared(LOG[:1], other[:1]), compared(LOG[1:2], LOG[1:2]), compared(LOG[2:], other[2:])]
    assert [each.start for each in equality.joined(apart).ranges] == [3]
    assert equality.joined([compared((), ()), compared(LOG[1:3], other[1:3])]).begins_differing
    assert equality.joined([]) == ComparedBatches(0, (), False, False)


# Compaction at the source.


def kept(number: int, *offsets: int) -> bytes:
    """A batch of the log after a cleaner that keeps these offsets of it, the last one among them."""
    header = headers_of(LOG[number])[0]
    values = {3: b"d", 4: b"e", 5: b"f"}
    records = [Record(timestamp=NOW_MS + at - 3, key=b"k", value=values[at], offset=at) for at in offsets]
    return build_batch(records, base_offset=header.base_offset, partition_leader_epoch=3)


def test_a_source_that_was_compacted_later_has_fewer_records() -> None:
    source = [LOG[0], kept(2, 4, 5), *LOG[3:]]  # the batch of offset 2 is gone
    assert compared(source, LOG, cleaned_to=6).ranges == ()
    assert [each.start for each in compared(source, LOG, cleaned_to=5).ranges] == [3]
    assert [(each.start, each.end) for each in compared(source, LOG).ranges] == [(2, 6)]


def test_a_mirror_never_lacks_a_record_that_a_compacted_source_has() -> None:
    mirror = [*LOG[:2], kept(2, 4, 5), *LOG[3:]]
    assert [each.start for each in compared(LOG, mirror, cleaned_to=100).ranges] == [3]
    assert [each.start for each in compared(LOG, [*LOG[:2], *LOG[3:]], cleaned_to=100).ranges] == [3]


def test_compaction_changes_no_record_and_no_epoch() -> None:
    for planted in (batch(3, b"d", b"X", b"f"), batch(3, b"d", b"e", b"f", partition_leader_epoch=2)):
        assert len(compared(LOG, [*LOG[:2], planted, *LOG[3:]], cleaned_to=100).ranges) == 1


# Partitions.


def proved(source: MemoryLogs, mirror: MemoryLogs, *topics: str) -> Equality:
    return prove(mirror, source, topics, lambda read, tasks, _: map(read, tasks), lambda _: None, lambda _: None)


def both(ours: Sequence[bytes], theirs: Sequence[bytes], **fields: Any) -> tuple[MemoryLogs, MemoryLogs]:
    source, mirror = MemoryLogs(), MemoryLogs()
    source.add("broker 1", *ours, **fields)
    mirror.add("broker 7", *theirs)
    return source, mirror


def test_a_proof_counts_equal_partitions_and_their_batches() -> None:
    assert proved(*both(LOG, LOG)) == Equality(1, 1, 5, [])


def test_a_partition_that_differs_has_its_offset_and_its_reason() -> None:
    mirror = [*LOG[:2], batch(3, b"d", b"X", b"f"), *LOG[3:]]
    result = proved(*both(LOG, mirror))
    assert (result.partitions, result.equal, result.batches) == (1, 0, 4)
    (found,) = result.findings
    assert (found.level, found.claim, found.topic, found.partition, found.offset) == (DAMAGE, "mirror", "t", 0, 3)
    assert found.text.startswith("differs from its source at offset 3 to 5: another value of offset 4")
    assert found.replica == "mirror, broker 7"
    assert found.path == "/broker 7/log"
    assert found.byte > 0


def test_a_partition_that_differs_up_to_its_end_does_so_from_an_offset_on() -> None:
    result = proved(*both(LOG, [*LOG[:3], batch(6, b"X"), batch(7, b"Y")]))
    (found,) = result.findings
    assert found.text.startswith("differs from its source from offset 6 on (2 batches): another value of offset 6")


def test_many_ranges_are_counted() -> None:
    ours = [batch(number, b"a") for number in range(30)]
    theirs = [batch(number, b"a" if number % 2 else b"b") for number in range(30)]
    found = proved(*both(ours, theirs)).findings
    assert len(found) == MOST_RANGES + 1
    assert found[-1].text == "differs in 5 more places"
    assert found[-1].offset == 2 * MOST_RANGES


def test_a_mirror_that_is_behind_is_equal_so_far() -> None:
    result = proved(*both(LOG, LOG[:-1]))
    assert result.equal == 1
    (found,) = result.findings
    assert (found.level, found.offset) == (NOTE, 7)
    assert found.text == "is 1 offsets behind its source, which ends at 8"


def test_a_mirror_that_is_ahead_is_not_equal() -> None:
    result = proved(*both(LOG[:-2], LOG))
    assert result.equal == 0
    (found,) = result.findings
    assert (found.level, found.offset) == (DAMAGE, 6)
    assert found.text == "has 2 offsets more than its source, which ends at 6"


@pytest.mark.parametrize("start", [0, 2, 4, 6])
def test_only_offsets_that_both_have_are_compared(start: int) -> None:
    source, mirror = both(LOG, LOG, facts=ReplicaFacts(log_start=start))
    assert proved(source, mirror).findings == []
    cut = [each for each in LOG if headers_of(each)[0].next_offset > start]
    assert proved(*both(cut, LOG, facts=ReplicaFacts(log_start=start))).findings == []
    later = MemoryLogs()
    later.add("broker 7", *cut, facts=ReplicaFacts(log_start=start))
    assert proved(both(LOG, LOG)[0], later).findings == []


def test_records_deleted_at_the_source_during_the_comparison_are_no_difference() -> None:
    source, mirror = both(LOG, LOG)

    def deleting(read: Any, tasks: Any, _: Any) -> Iterator[Any]:
        source.logs["broker 1/t-0"] = list(LOG[2:])
        for task in tasks:
            yield read(task)
        source.known["broker 1/t-0"] = ReplicaFacts(log_start=3)

    assert prove(mirror, source, (), deleting, lambda _: None, lambda _: None).findings == []


def test_tasks_are_pieces_of_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "TASK_OFFSETS", 2)
    sizes: list[int] = []
    source, mirror = both(LOG, LOG, size_bytes=800)
    result = prove(mirror, source, (), lambda read, tasks, _: map(read, tasks), lambda _: None, sizes.append)
    assert (result.batches, result.findings, sizes) == (5, [], [800])
    other = [*LOG[:2], batch(3, b"d", b"X", b"f"), batch(6, b"Y"), *LOG[4:]]
    (found,) = proved(*both(LOG, other)).findings
    assert found.text.startswith("differs from its source at offset 3 to 6 (2 batches): ")


def test_a_partition_that_the_mirror_lacks_is_not_equal() -> None:
    source, mirror = both(LOG, LOG)
    source.listed["broker 1/t-1"] = source.listed["broker 1/t-0"]._replace(partition=1)
    result = proved(source, mirror)
    assert (result.partitions, result.equal) == (2, 1)
    assert [(each.level, each.partition, each.text) for each in result.findings] == [
        (DAMAGE, 1, "the mirror has no such partition")
    ]


def test_topics_of_one_side_alone_are_left_out_unless_they_are_named() -> None:
    source, mirror = both(LOG, LOG)
    source.add("broker 1", *LOG, topic="only there")
    mirror.add("broker 7", *LOG, topic="only here")
    assert proved(source, mirror) == Equality(1, 1, 5, [])
    with pytest.raises(NoSuchTopic, match="the source has no topic only here"):
        proved(source, mirror, "only here")


def test_topics_of_other_ids_are_no_mirrors() -> None:
    source, mirror = MemoryLogs(), MemoryLogs()
    source.add("broker 1", *LOG, topic_id="C" * 21 + "A")
    mirror.add("broker 7", make_batch(0), topic_id="B" * 21 + "A")
    (found,) = proved(source, mirror).findings
    assert found.level == NOTE
    assert "its id is not that of the source's topic" in found.text
    result = proved(source, mirror, "t")
    assert [each.level for each in result.findings] == [DAMAGE]
    mirror.listed["broker 7/t-0"] = mirror.listed["broker 7/t-0"]._replace(topic_id="")
    assert proved(source, mirror).partitions == 1


def test_a_source_that_cannot_be_read_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, mirror = both(LOG, LOG)

    def fails(*_: object) -> Iterator[Any]:
        raise OSError("no route to host")
        yield

    monkeypatch.setattr(source, "batches", fails)
    result = proved(source, mirror)
    assert (result.equal, result.batches) == (0, 0)
    assert [each.text for each in result.findings] == ["cannot be compared from offset 0 on: no route to host"]
