"""The search by time finds what a look at every record would find."""

from hypothesis import given
from hypothesis import strategies as st

from kpywire.batch import parse_header
from kpywire.record import Record, build_batch, read_records
from kpywire.time_search import first_not_older

TIMES = st.one_of(
    st.integers(-3, 200), st.integers(10**12, 10**12 + 10**6), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62)])
)


@given(
    st.lists(st.tuples(TIMES, st.binary(max_size=200)), min_size=1, max_size=40),
    TIMES,
    st.integers(0, 1_050),
    st.integers(0, 4),
    st.booleans(),
)
def test_the_first_record_not_older_is_found(
    contents: list[tuple[int, bytes]], timestamp: int, start_offset: int, codec: int, appended: bool
) -> None:
    records = [Record(timestamp=each, value=value) for each, value in contents]
    batch = bytearray(build_batch(records, base_offset=1_000, codec=codec))
    if appended:
        batch[22] |= 8  # the attribute that says: all have the batch's timestamp
    expected = None
    for record in read_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            expected = record.timestamp, record.offset
            break
    assert first_not_older(batch, parse_header(batch), timestamp, start_offset) == expected
