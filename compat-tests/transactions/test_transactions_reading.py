"""The aborted transactions that a reader of a log with many gets: those that Apache Kafka lists, and no others.

Forty transactions of two records of 900 bytes, every other one aborted; each takes three offsets, the last its marker.
What a reader gets ends where its bytes do. How far that is says the offset index, which has an entry about every 4 KiB.
"""

import pytest

from kpywire import error_codes
from support.raw_client import RawClient, connect
from support.raw_requests import create
from support.raw_transactions import ADDING, Transactional, aborted_in, fetch, find_coordinator

TOPIC = "every-other-one-aborted"
ABORTED = list(range(3, 120, 6))


@pytest.fixture(scope="module")
def producer_id(bootstrap_servers: str) -> int:
    """The producer id of the transactions, which are made once."""
    with connect(bootstrap_servers) as raw:
        create(raw, TOPIC, 1)
        producer = Transactional(raw, TOPIC)
        find_coordinator(raw, TOPIC)
        assert producer.init().error_code == error_codes.NONE
        for number in range(40):
            assert producer.produce(TOPIC, bytes(900), bytes(900), version=ADDING).error_code == error_codes.NONE
            assert producer.end(number % 2 == 0, 5).error_code == error_codes.NONE
            producer.until("CompleteCommit", "CompleteAbort")
        return producer.producer_id


@pytest.mark.parametrize(
    ("offset", "max_bytes", "first_offsets"),
    [
        (0, 1, [3]),
        (0, 5_000, [3]),
        (0, 10_000, [3, 9, 15]),
        (0, 40_000, ABORTED[:10]),
        (0, 1 << 20, ABORTED),
        (5, 1, [3]),
        (5, 3_000, [3, 9, 15]),
        (5, 10_000, [3, 9, 15, 21]),
        (17, 5_000, [15, 21]),
        (17, 10_000, [15, 21, 27, 33]),
        (17, 1 << 20, ABORTED[2:]),
        (60, 1_000, []),
        (60, 3_000, [63, 69]),
        (100, 1, [99, 105]),
        (119, 1 << 20, [117]),
        (120, 1 << 20, []),
    ],
)
def test_aborted_transactions_of_what_is_read(
    raw: RawClient, producer_id: int, offset: int, max_bytes: int, first_offsets: list[int]
) -> None:
    answer = fetch(raw, TOPIC, offset, committed=True, max_bytes=max_bytes)
    assert answer.error_code == error_codes.NONE
    assert aborted_in(answer) == [(producer_id, first) for first in first_offsets]
    assert aborted_in(fetch(raw, TOPIC, offset, committed=False, max_bytes=max_bytes)) is None
