"""The plan of a commit: any sequence of plans covers every offset once, within the limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.lake import planning
from kpybroker.machines.lake.coverage import Covered, Lane, LaneStep, advanced, is_within, of_json, ranges, to_json
from kpybroker.machines.lake.planning import CommitLimits

logs = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 300)).map(lambda each: (each[0], sum(each)))
)
limits = st.builds(CommitLimits, st.integers(3, 300), st.integers(1_500, 100_000), st.integers(0, 10_000))


@given(logs, limits, st.booleans(), st.lists(st.integers(0, 60), max_size=30))
@settings(max_examples=100, deadline=None)
def test_plans_cover_every_offset_once_whatever_the_limits(
    log: dict[int, tuple[int, int]], limit: CommitLimits, backfill: bool, growth: list[int]
) -> None:
    starts = {partition: start for partition, (start, _) in log.items()}
    first_ends = {partition: end for partition, (_, end) in log.items()}
    coverage = planning.begin({}, starts, first_ends, backfill=backfill)
    seen: dict[int, set[int]] = {partition: set() for partition in log}
    ends = dict(first_ends)
    for _ in range(20_000):
        ends = {partition: end + growth.pop() for partition, end in ends.items()} if len(growth) > len(ends) else ends
        steps = planning.plan(coverage, ends, limit, 500.0)
        if not steps:
            break
        assert all(step.offsets > 0 for step in steps)
        budget = planning.budget_offsets(limit, 500.0)
        assert sum(step.offsets for step in steps) <= budget + max(1, budget // planning.BACKFILL_SHARE)
        for step in steps:
            wanted = set(range(step.start, step.end))
            assert not wanted & seen[step.partition]
            seen[step.partition] |= wanted
        coverage = advanced(coverage, steps)
    else:
        raise AssertionError("plans do not end")
    assert seen == {partition: set(range(starts[partition], ends[partition])) for partition in log}
    for partition, lanes in coverage.items():
        covered = [] if starts[partition] == ends[partition] else [Lane(starts[partition], ends[partition])]
        assert ranges(lanes) == covered


@given(st.lists(st.integers(0, 400), max_size=8), st.integers(1, 600))
def test_small_partitions_are_taken_whole_before_large_ones_are_cut(sizes: list[int], budget: int) -> None:
    steps = [LaneStep(number, 0, 0, size) for number, size in enumerate(sizes)]
    cut = {step.partition: step.offsets for step in planning.shared(steps, budget)}
    assert sum(cut.values()) == min(budget, sum(sizes))
    taken = [(size, cut.get(number, 0)) for number, size in enumerate(sizes)]
    largest = max((part for size, part in taken if part < size), default=0)
    assert all(part == size for size, part in taken if size < largest - 1)


def test_a_commit_is_due_by_rows_bytes_or_age() -> None:
    waiting = [LaneStep(0, 0, 0, 100)]
    assert planning.is_due(waiting, CommitLimits(rows=100, age_ms=9_000), 1.0, 0)
    assert planning.is_due(waiting, CommitLimits(bytes=1_000, age_ms=9_000), 10.0, 0)
    assert planning.is_due(waiting, CommitLimits(age_ms=9_000), 1.0, 9_000)
    assert not planning.is_due(waiting, CommitLimits(age_ms=9_000), 1.0, 8_999)
    assert not planning.is_due([], CommitLimits(age_ms=0), 1.0, 9_000)


def test_a_backfill_goes_on_while_the_tail_alone_would_fill_every_commit() -> None:
    coverage = planning.begin({}, {0: 0}, {0: 10_000}, backfill=True)
    steps = planning.plan(coverage, {0: 1_000_000}, CommitLimits(rows=1_000), 1.0)
    assert [(step.lane, step.offsets) for step in steps] == [(1, 750), (0, 250)]


def test_a_step_that_does_not_continue_its_lane_is_refused() -> None:
    with pytest.raises(ValueError, match="does not continue"):
        advanced({0: (Lane(0, 5),)}, [LaneStep(0, 0, 6, 9)])


coverages = st.dictionaries(
    st.integers(0, 99),
    st.lists(st.integers(0, 1 << 62), min_size=2, max_size=2).map(lambda each: (Lane(*sorted(each)),)),
)


@given(coverages, st.integers(0, 1 << 62))
def test_coverage_is_read_as_it_was_written(coverage: dict[int, tuple[Lane, ...]], number: int) -> None:
    covered = Covered("AAAAAAAAAAAAAAAAAAAAAA", coverage, number)
    assert of_json(to_json(covered)) == covered
    assert is_within(coverage, coverage)


@given(st.text() | st.sampled_from(["{}", "[]", '{"topic_id":1,"writer":0,"partitions":{"x":[]}}', "null"]))
def test_other_text_is_no_coverage(text: str) -> None:
    with pytest.raises(ValueError, match="not offsets"):
        of_json(text)


def test_a_step_is_split_into_tasks_and_reached_up_to_the_first_gap() -> None:
    step, other = LaneStep(0, 0, 10, 35), LaneStep(1, 0, 0, 5)
    pieces = planning.tasks([step, other], 10)
    assert pieces == [LaneStep(0, 0, 10, 20), LaneStep(0, 0, 20, 30), LaneStep(0, 0, 30, 35), other]
    assert planning.reached([step, other], {each: each.end for each in pieces}) == [step, other]
    cut_short = {each: each.end for each in pieces} | {pieces[1]: 27}
    assert planning.reached([step, other], cut_short) == [step._replace(end=27), other], "the third does not follow"
    assert planning.reached([step, other], {pieces[1]: 30, other: 0}) == [], "nothing was read from the start on"


def test_the_end_of_a_log_below_the_table_is_a_loss() -> None:
    coverage = {0: (Lane(0, 5), Lane(8, 20)), 1: (Lane(0, 7),), 2: ()}
    assert planning.lost(coverage, {0: 20, 1: 7}) == {}
    assert planning.lost(coverage, {0: 19, 1: 6, 2: 0}) == {0: (20, 19), 1: (7, 6)}
    assert planning.lost(coverage, {}) == {}, "a partition that is not known is not lost"
