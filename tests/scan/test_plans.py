"""Plans of scans: bounds, tasks, micro-batches and positions, by arithmetic alone."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.scan.admission import AdmissionLimits, admitted, is_due
from kpybroker.machines.scan.bounds import Bound, LogRange, questions, resolved
from kpybroker.machines.scan.errors import BadOption, ScanError
from kpybroker.machines.scan.planning import TaskSizes, tasks
from kpybroker.machines.scan.ranges import OffsetRange, Spot
from kpybroker.machines.scan.stream_offsets import StreamPositions, at_most, begin, from_json, losses, ranges, unknown

LOGS = {("t", 0): LogRange(5, 10), ("t", 1): LogRange(0, 3)}


def test_words_and_numbers_name_the_ends_of_logs() -> None:
    assert resolved(Bound("s", word="earliest"), LOGS, {}) == {("t", 0): 5, ("t", 1): 0}
    assert resolved(Bound("s", word="latest"), LOGS, {}) == {("t", 0): 10, ("t", 1): 3}
    assert resolved(Bound("s", offsets={("t", 0): -1, ("t", 1): -2}), LOGS, {}) == {("t", 0): 10, ("t", 1): 0}
    assert resolved(Bound("s", offsets={("t", 0): 7, ("t", 1): 99}), LOGS, {}) == {("t", 0): 7, ("t", 1): 99}


def test_times_are_asked_of_brokers() -> None:
    bound = Bound("s", time_ms=70)
    assert questions(bound, LOGS) == {("t", 0): 70, ("t", 1): 70}
    assert resolved(bound, LOGS, {("t", 0): 6, ("t", 1): -1}) == {("t", 0): 6, ("t", 1): 3}
    came_since = {("t", 0): 12, ("t", 1): 3}
    assert resolved(bound, LOGS, came_since) == {("t", 0): 10, ("t", 1): 3}
    strict = Bound("s", times_ms={("t", 0): 70, ("t", 1): 80}, latest_if_none=False)
    assert questions(strict, LOGS) == {("t", 0): 70, ("t", 1): 80}
    with pytest.raises(ScanError, match="No offset matched from request of topic-partition t-1 and timestamp 80"):
        resolved(strict, LOGS, {("t", 0): 6, ("t", 1): -1})


@pytest.mark.parametrize("offsets", [{("t", 0): 1}, {("t", 0): 1, ("t", 1): 1, ("u", 0): 1}])
def test_offsets_have_to_name_every_partition(offsets: dict[Spot, int]) -> None:
    with pytest.raises(BadOption, match=r"\[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED\].*Assigned: t-0, t-1"):
        resolved(Bound("startingOffsets", offsets=offsets), LOGS, {})
    with pytest.raises(BadOption, match=r"\[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED\]"):
        questions(Bound("startingOffsetsByTimestamp", times_ms=offsets), LOGS)


def part(partition: int, start: int, end: int) -> OffsetRange:
    return OffsetRange("t", b"", partition, start, end)


def test_large_partitions_are_cut_and_small_ones_put_together() -> None:
    ranges = [part(0, 0, 1000), *(part(number, 0, 10) for number in range(1, 100)), part(100, 7, 7)]
    sizes = {each.spot: 100.0 for each in ranges}
    made = tasks(ranges, sizes, TaskSizes(task_bytes=32_000))
    assert [[str(each) for each in task] for task in made[:4]] == [
        ["t-0 [0, 250)"],
        ["t-0 [250, 500)"],
        ["t-0 [500, 750)"],
        ["t-0 [750, 1000)"],
    ]
    assert [len(task) for task in made[4:]] == [12] * 8 + [3]
    assert sum(len(task) for task in made[4:]) == 99


@pytest.mark.parametrize("partitions", [1, 10, 100, 1_000, 10_000])
def test_tasks_of_a_large_plan_have_about_the_bytes_that_are_asked_for(partitions: int) -> None:
    ranges = [part(number, 0, 1_000_000 // partitions) for number in range(partitions)]
    made = tasks(ranges, {each.spot: 100.0 for each in ranges}, TaskSizes(task_bytes=1_000_000))
    assert len(made) == 100


def test_a_small_plan_keeps_enough_tasks_for_all_cores() -> None:
    ranges = [part(number, 0, 1_000) for number in range(20)]
    made = tasks(ranges, {each.spot: 100.0 for each in ranges}, TaskSizes(task_bytes=800_000))
    assert len(made) == 20
    made = tasks(ranges, {each.spot: 10.0 for each in ranges}, TaskSizes(task_bytes=800_000))
    assert len(made) == 2


def test_spark_can_ask_for_more_tasks_or_for_smaller_ones() -> None:
    ranges = [part(0, 0, 90), part(1, 0, 10)]
    assert len(tasks(ranges, {}, TaskSizes(task_bytes=1, min_tasks=7))) == 7
    assert len(tasks(ranges, {}, TaskSizes(task_bytes=1, max_records=30))) == 4
    assert len(tasks(ranges, {}, TaskSizes(task_bytes=1, min_tasks=1000))) == 100
    assert tasks([], {}, TaskSizes(task_bytes=1, min_tasks=5)) == []


LENGTHS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), max_size=8)
SIZES = st.builds(
    TaskSizes,
    task_bytes=st.integers(1, 5000),
    min_tasks=st.none() | st.integers(1, 40),
    max_records=st.none() | st.integers(1, 200),
)


@given(LENGTHS, SIZES, st.floats(0, 200))
def test_tasks_have_every_offset_once_and_in_order(
    given_lengths: list[tuple[int, int]], sizes: TaskSizes, offset_bytes: float
) -> None:
    ranges = [part(number, start, start + length) for number, (start, length) in enumerate(given_lengths)]
    made = tasks(ranges, {each.spot: offset_bytes for each in ranges}, sizes)
    pieces = [piece for task in made for piece in task]
    assert all(made)
    found = [(piece.partition, offset) for piece in pieces for offset in range(piece.start_offset, piece.end_offset)]
    assert found == [
        (each.partition, offset) for each in ranges for offset in range(each.start_offset, each.end_offset)
    ]
    if sizes.max_records is not None:
        assert all(piece.offsets <= sizes.max_records for piece in pieces)
    if sizes.min_tasks is not None:
        assert len(made) >= min(sizes.min_tasks, len(found))


def test_a_batch_takes_its_share_of_every_partition() -> None:
    start, latest = {("t", 0): 0, ("t", 1): 0, ("t", 2): 7}, {("t", 0): 300, ("t", 1): 100, ("t", 2): 7}
    assert admitted(start, latest, AdmissionLimits(max_offsets=100), {}) == {("t", 0): 75, ("t", 1): 25, ("t", 2): 7}
    assert admitted(start, latest, AdmissionLimits(max_offsets=400), {}) == latest
    assert admitted(start, latest, AdmissionLimits(), {}) == latest
    by_bytes = admitted(start, latest, AdmissionLimits(max_bytes=1000), {("t", 0): 10.0, ("t", 1): 30.0})
    assert by_bytes == {("t", 0): 50, ("t", 1): 16, ("t", 2): 7}


WAITING = st.dictionaries(
    st.tuples(st.just("t"), st.integers(0, 5)), st.tuples(st.integers(0, 99), st.integers(-5, 200))
)


@given(WAITING, st.integers(1, 300) | st.none(), st.integers(1, 5000) | st.none())
def test_limits_hold_and_every_stream_comes_to_its_end(
    waiting: Mapping[Spot, tuple[int, int]], max_offsets: int | None, max_bytes: int | None
) -> None:
    limits = AdmissionLimits(max_offsets=max_offsets, max_bytes=max_bytes)
    at: Mapping[Spot, int] = {spot: start for spot, (start, _) in waiting.items()}
    latest = {spot: start + length for spot, (start, length) in waiting.items()}
    sizes = dict.fromkeys(waiting, 10.0)
    while any(at[spot] < latest[spot] for spot in latest):
        end = admitted(at, latest, limits, sizes)
        moved = sum(max(end[spot] - at[spot], 0) for spot in end)
        assert moved > 0
        assert max_offsets is None or moved <= max_offsets
        assert max_bytes is None or moved * 10 <= max(max_bytes, 10)
        assert all(end[spot] <= latest[spot] for spot in end)
        at = end


def test_a_batch_waits_for_enough_offsets_but_not_too_long() -> None:
    limits = AdmissionLimits(min_offsets=10, max_delay_ms=1000)
    assert not is_due({("t", 0): 0}, {("t", 0): 9}, limits, waited_ms=999)
    assert is_due({("t", 0): 0}, {("t", 0): 10}, limits, waited_ms=0)
    assert is_due({("t", 0): 0}, {("t", 0): 1}, limits, waited_ms=1000)
    assert is_due({("t", 0): 0}, {("t", 0): 0}, AdmissionLimits(), waited_ms=0)


OLD, NEW = b"o" * 16, b"n" * 16


def test_positions_are_sparks_json_with_the_ids_of_topics() -> None:
    positions = StreamPositions({("t", 0): 5, ("t", 10): 7, ("u", 0): 0}, {"t": OLD, "u": NEW})
    text = json.dumps(positions.to_json())
    assert json.loads(text)["t"] == {"0": 5, "10": 7}
    assert from_json(json.loads(text)) == positions
    assert from_json({"t": {"0": 5}}) == StreamPositions({("t", 0): 5}, {})


@pytest.mark.parametrize(
    "wrong", [{"t": 5}, {"t": {"x": 1}}, {"t": {"0": None}}, {"topic ids": {"t": "?"}}, {"topic ids": 5}]
)
def test_positions_of_another_kind_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ScanError, match="these are no offsets of a Kafka source"):
        from_json(wrong)


def test_new_partitions_are_read_from_their_beginning() -> None:
    start, end = StreamPositions({("t", 0): 5}, {"t": OLD}), StreamPositions({("t", 0): 9, ("t", 1): 4}, {"t": OLD})
    assert unknown(start, end) == {("t", 1)}
    assert begin(start, end, {("t", 1): 0}) == {("t", 0): 5, ("t", 1): 0}
    assert list(losses(start, end, {("t", 1): 0})) == []
    (loss,) = losses(start, end, {("t", 1): 2})
    assert loss.condition == "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    assert [str(each) for each in ranges({("t", 0): 5, ("t", 1): 0}, end)] == ["t-0 [5, 9)", "t-1 [0, 4)"]


def test_a_topic_made_again_is_noticed_whatever_its_offsets() -> None:
    start, end = StreamPositions({("t", 0): 5}, {"t": OLD}), StreamPositions({("t", 0): 500}, {"t": NEW})
    (loss,) = losses(start, end, {})
    assert "created again: partition t-0 offset was changed from 5 to 500" in str(loss)
    assert begin(start, end, {("t", 0): 3}) == {("t", 0): 3}


def test_deleted_partitions_and_offsets_that_go_back_are_losses() -> None:
    start = StreamPositions({("t", 0): 5, ("u", 0): 1}, {"t": OLD, "u": OLD})
    end = StreamPositions({("t", 0): 4}, {"t": OLD})
    assert [loss.condition for loss in losses(start, end, {})] == ["PARTITIONS_DELETED", "PARTITION_OFFSET_CHANGED"]
    assert ranges(begin(start, end, {}), end) == []


def test_positions_are_bounded_by_others_but_for_topics_that_were_made_again() -> None:
    here = StreamPositions({("t", 0): 5, ("t", 1): 9, ("u", 0): 5}, {"t": b"t" * 16, "u": b"u" * 16})
    there = StreamPositions({("t", 0): 7, ("u", 0): 3}, {"t": b"t" * 16, "u": b"n" * 16})
    assert at_most(here, there).offsets == {("t", 0): 5, ("t", 1): 9, ("u", 0): 5}
    assert at_most(there, here).offsets == {("t", 0): 5, ("u", 0): 3}
