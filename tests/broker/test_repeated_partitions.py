"""A partition that a Produce request names more than once: which batch is appended, and what is answered."""

from kpybroker.requests.serving.repeated_partitions import one_of_each
from kpywire import error_codes
from kpywire.record import Record, build_batch

ZSTD = 4
BEFORE_ZSTD, LATEST = 6, 12


def batch(value: bytes, codec: int = 0) -> memoryview:
    return memoryview(bytearray(build_batch([Record(timestamp=1, key=None, value=value)], codec=codec)))


FIRST, LAST, PACKED = batch(b"first"), batch(b"last"), batch(b"packed", ZSTD)


def test_partitions_that_come_once_are_left_alone() -> None:
    topics = [("t", [(0, FIRST), (1, LAST)])]
    assert one_of_each(topics, LATEST) == (topics, {})


def test_the_last_batch_counts_also_across_mentions_of_a_topic() -> None:
    topics = [("t", [(0, FIRST)]), ("u", [(0, FIRST)]), ("t", [(1, FIRST), (0, LAST)]), ("nothing", [])]
    assert one_of_each(topics, LATEST) == ([("t", [(0, LAST), (1, FIRST)]), ("u", [(0, FIRST)])], {})


def test_a_refused_batch_is_answered_although_another_one_is_appended() -> None:
    for order in ([(0, PACKED), (0, LAST)], [(0, LAST), (0, PACKED)]):
        kept, overruled = one_of_each([("t", order)], BEFORE_ZSTD)
        assert kept == [("t", [(0, LAST)])]
        assert overruled["t", 0].code == error_codes.UNSUPPORTED_COMPRESSION_TYPE


def test_the_last_of_several_refusals_is_answered() -> None:
    order = [(0, PACKED), (0, FIRST), (0, None), (0, LAST)]
    kept, overruled = one_of_each([("t", order)], BEFORE_ZSTD)
    assert kept == [("t", [(0, LAST)])]
    assert overruled["t", 0].code == error_codes.INVALID_RECORD


def test_the_refusal_stands_if_every_batch_is_refused() -> None:
    kept, overruled = one_of_each([("t", [(0, PACKED), (0, None)])], BEFORE_ZSTD)
    assert (kept, overruled) == ([("t", [(0, None)])], {})
