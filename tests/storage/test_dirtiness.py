"""How much of a log is dirty and whether it is worth a pass, by the rules of Kafka's LogCleanerManager."""

from typing import NamedTuple

import pytest
from log_making import NOW_MS

from kpystorage.compaction.dirtiness import Dirt, LogBounds, measure
from kpystorage.log_config import LogConfig

CONFIG = LogConfig(cleanup_compact=True, cleanup_delete=False)
MINUTE_MS = 60_000


class Part(NamedTuple):
    """A segment of a hundred bytes for every offset."""

    base_offset: int
    size: int
    largest_timestamp: int = NOW_MS - 10 * MINUTE_MS
    first_timestamp: int = NOW_MS - 10 * MINUTE_MS


SEGMENTS = [Part(0, 1000), Part(10, 1000), Part(20, 1000), Part(30, 500)]


def look(
    cleaned_to: int | None = None, *, start: int = 0, end: int = 35, stable: int = 35, config: LogConfig = CONFIG,
    segments: list[Part] = SEGMENTS,
) -> Dirt:  # fmt: skip
    return measure(segments, LogBounds(start, end, stable), cleaned_to, config, NOW_MS)


def extent(dirt: Dirt) -> tuple[int, int, int, int]:
    return dirt.first_dirty_offset, dirt.first_uncleanable_offset, dirt.clean_bytes, dirt.cleanable_bytes


def test_all_but_the_active_segment_of_a_log_that_was_never_compacted_is_dirty() -> None:
    assert extent(look()) == (0, 30, 0, 3000)
    assert look().ratio == 1.0


def test_compacted_segments_are_clean() -> None:
    assert extent(look(20)) == (20, 30, 2000, 1000)
    assert look(20).ratio == pytest.approx(1 / 3)


def test_a_segment_that_was_compacted_in_part_counts_on_both_sides() -> None:
    assert extent(look(15)) == (15, 30, 2000, 2000)


@pytest.mark.parametrize(("stable", "uncleanable"), [(35, 30), (30, 30), (29, 20), (20, 20), (12, 10), (3, 0)])
def test_the_segment_with_the_last_stable_offset_is_left_alone(stable: int, uncleanable: int) -> None:
    assert look(stable=stable).first_uncleanable_offset == uncleanable


def test_only_what_is_older_than_the_lag_is_compacted() -> None:
    segments = [*SEGMENTS[:2], Part(20, 1000, largest_timestamp=NOW_MS - MINUTE_MS), SEGMENTS[3]]
    lagging = CONFIG._replace(min_compaction_lag_ms=5 * MINUTE_MS)
    assert extent(look(config=lagging, segments=segments)) == (0, 20, 0, 2000)
    assert extent(look(config=lagging._replace(min_compaction_lag_ms=MINUTE_MS), segments=segments)) == (0, 30, 0, 3000)


def test_a_log_all_of_which_is_too_young_has_nothing_to_compact() -> None:
    dirt = look(10, config=CONFIG._replace(min_compaction_lag_ms=20 * MINUTE_MS))
    assert dirt.cleanable_bytes == 0
    assert not dirt.is_worth_it(CONFIG)


@pytest.mark.parametrize(("cleaned_to", "start"), [(5, 10), (36, 10), (100, 10)])
def test_a_checkpoint_that_does_not_fit_the_log_counts_for_nothing(cleaned_to: int, start: int) -> None:
    dirt = look(cleaned_to, start=start)
    assert dirt.is_checkpoint_invalid
    assert dirt.first_dirty_offset == start


@pytest.mark.parametrize("cleaned_to", [None, 10, 35])
def test_a_checkpoint_within_the_log_stands(cleaned_to: int | None) -> None:
    assert not look(cleaned_to, start=10).is_checkpoint_invalid


def test_a_log_is_worth_a_pass_when_more_of_it_is_dirty_than_configured() -> None:
    assert look(20).is_worth_it(CONFIG._replace(min_cleanable_dirty_ratio=0.33))
    assert not look(20).is_worth_it(CONFIG._replace(min_cleanable_dirty_ratio=0.34))
    assert not look(30).is_worth_it(CONFIG._replace(min_cleanable_dirty_ratio=0.0))


def test_records_that_have_waited_too_long_make_a_pass_whatever_the_ratio() -> None:
    overdue = CONFIG._replace(max_compaction_lag_ms=7 * MINUTE_MS)
    assert look(20, config=overdue).delay_ms == 3 * MINUTE_MS
    assert look(20, config=overdue).is_worth_it(overdue)
    assert look(20, config=overdue._replace(max_compaction_lag_ms=11 * MINUTE_MS)).delay_ms == 0
    assert look(30, config=overdue).delay_ms == 0


def test_segments_without_timestamps_are_never_overdue() -> None:
    segments = [part._replace(first_timestamp=-1) for part in SEGMENTS]
    assert look(config=CONFIG._replace(max_compaction_lag_ms=1), segments=segments).delay_ms == 0


def test_an_empty_log_is_not_worth_a_pass() -> None:
    empty = look(end=0, stable=0, segments=[Part(0, 0)])
    assert (empty.total_bytes, empty.ratio) == (0, 0.0)
    assert not empty.is_worth_it(CONFIG._replace(min_cleanable_dirty_ratio=0.0))
