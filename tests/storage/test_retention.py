"""Which segments go: never what readers may still get, always the oldest, and exactly as many as asked for."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kpystorage.log_config import LogConfig
from kpystorage.retention import expendable

KEEP_ALL = LogConfig(retention_bytes=-1, retention_ms=-1)


class Stretch(NamedTuple):
    base_offset: int
    size: int
    largest_timestamp: int


SEGMENTS = [Stretch(0, 100, 1000), Stretch(10, 100, 3000), Stretch(20, 100, 2000), Stretch(30, 50, 5000)]


def gone(config: LogConfig, *, start: int = 0, high: int = 40, now_ms: int = 10_000) -> int:
    return expendable(SEGMENTS, 40, start, high, config, now_ms)


def test_by_time_the_oldest_go_until_one_is_young_enough() -> None:
    assert gone(KEEP_ALL) == 0
    assert gone(KEEP_ALL._replace(retention_ms=8999)) == 1
    assert gone(KEEP_ALL._replace(retention_ms=9000)) == 0
    assert gone(KEEP_ALL._replace(retention_ms=7500)) == 1
    assert gone(KEEP_ALL._replace(retention_ms=6999)) == 3
    assert gone(KEEP_ALL._replace(retention_ms=0)) == 4


def test_by_size_what_is_left_stays_at_or_above_the_limit() -> None:
    assert gone(KEEP_ALL._replace(retention_bytes=350)) == 0
    assert gone(KEEP_ALL._replace(retention_bytes=250)) == 1
    assert gone(KEEP_ALL._replace(retention_bytes=249)) == 1
    assert gone(KEEP_ALL._replace(retention_bytes=50)) == 3
    assert gone(KEEP_ALL._replace(retention_bytes=0)) == 4


def test_below_the_log_start_and_never_at_the_high_watermark() -> None:
    assert gone(KEEP_ALL, start=20) == 2
    assert gone(KEEP_ALL, start=29) == 2
    assert gone(KEEP_ALL, start=40) == 3
    assert gone(KEEP_ALL._replace(retention_ms=0), high=29) == 2
    assert gone(KEEP_ALL._replace(retention_ms=0), high=9) == 0


def test_a_compacted_topic_loses_only_what_is_below_its_start() -> None:
    compacted = LogConfig(retention_ms=0, retention_bytes=0, cleanup_delete=False)
    assert gone(compacted) == 0
    assert gone(compacted, start=10) == 1


def test_an_active_segment_without_records_stays() -> None:
    segments = [*SEGMENTS[:2], Stretch(20, 0, 0)]
    assert expendable(segments, 20, 0, 20, KEEP_ALL._replace(retention_ms=0), 10_000) == 2


@given(
    sizes=st.lists(st.tuples(st.integers(1, 100), st.integers(0, 100)), min_size=1, max_size=8),
    start=st.integers(0, 80),
    high=st.integers(0, 80),
    retention_bytes=st.integers(-1, 400),
    retention_ms=st.integers(-1, 120),
)
def test_retention_deletes_only_below_the_high_watermark(
    sizes: list[tuple[int, int]], start: int, high: int, retention_bytes: int, retention_ms: int
) -> None:
    segments = [Stretch(10 * number, size, stamp) for number, (size, stamp) in enumerate(sizes)]
    end = 10 * len(segments)
    config = LogConfig(retention_bytes=retention_bytes, retention_ms=retention_ms)
    count = expendable(segments, end, start, high, config, 110)
    assert 0 <= count <= len(segments)
    assert 10 * count <= high or count == 0
    rest = sum(size for size, _ in sizes[count:])
    for number in range(count):
        below = 10 * (number + 1) <= start
        old = 0 <= retention_ms < 110 - sizes[number][1]
        large = retention_bytes >= 0 and sum(size for size, _ in sizes[number:]) - retention_bytes >= sizes[number][0]
        assert below or old or large
    if count and retention_ms < 0 and 10 * count > start:
        assert rest >= retention_bytes
