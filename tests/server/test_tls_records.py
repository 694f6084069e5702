"""Whole records are found wherever a buffer ends."""

from itertools import accumulate
from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.requests.server.tls_records import MOST_RECORD_BYTES, whole_records

SIZES = st.lists(st.integers(0, 300) | st.integers(16_000, MOST_RECORD_BYTES - 5), max_size=6)


def record(size: int) -> bytes:
    return pack(">BBBH", 23, 3, 3, size) + bytes(size)


@given(sizes=SIZES, data=st.data())
def test_records_that_have_come_as_a_whole_are_found(sizes: list[int], data: st.DataObject) -> None:
    sent = b"".join(map(record, sizes))
    count = data.draw(st.integers(0, len(sent)))
    buffer = memoryview(sent.ljust(len(sent) + 8, b"\xff"))
    ends = list(accumulate((5 + size for size in sizes), initial=0))
    come = [end for end in ends if end <= count]
    assert whole_records(buffer, count) == (come[-1], len(come) - 1)


@given(damaged=st.sampled_from([pack(">BBBH", 23, 4, 3, 10), pack(">BBBH", 23, 3, 3, MOST_RECORD_BYTES - 4)]))
def test_bytes_that_begin_no_record_are_passed_on(damaged: bytes) -> None:
    sent = record(20) + damaged + b"rest"
    assert whole_records(memoryview(sent), len(sent)) == (len(sent), 2)
