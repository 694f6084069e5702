"""Whole records are found wherever a buffer ends."""

from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.server.tls_records import MOST_RECORD_BYTES, whole_end

SIZES = st.lists(st.integers(0, 300) | st.integers(16_000, MOST_RECORD_BYTES - 5), max_size=6)


def record(size: int) -> bytes:
    return pack(">BBBH", 23, 3, 3, size) + bytes(size)


@given(sizes=SIZES, data=st.data(), most=st.integers(1, 60_000))
def test_pieces_of_whole_records_are_all_that_has_arrived(sizes: list[int], data: st.DataObject, most: int) -> None:
    sent = b"".join(map(record, sizes))
    count = data.draw(st.integers(0, len(sent)))
    buffer = memoryview(sent.ljust(len(sent) + 8, b"\xff"))
    ends = {0}
    for size in sizes:
        ends.add(max(ends) + 5 + size)
    whole = whole_end(buffer, 0, count, count)
    assert whole == max(end for end in ends if end <= count)
    position = 0
    while position < whole:
        stop = whole_end(buffer, position, whole, most)
        assert stop in ends
        assert stop > position
        assert stop - position <= most or not any(position < end < stop for end in ends)
        position = stop


@given(damaged=st.sampled_from([pack(">BBBH", 23, 4, 3, 10), pack(">BBBH", 23, 3, 3, MOST_RECORD_BYTES - 4)]))
def test_bytes_that_begin_no_record_are_passed_on(damaged: bytes) -> None:
    sent = record(20) + damaged + b"rest"
    assert whole_end(memoryview(sent), 0, len(sent), 8) == len(sent)
