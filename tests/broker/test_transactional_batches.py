"""The requests that write into a transaction without naming it, by the bytes of their batches."""

from kpybroker.requests.serving.transactional_batches import writes_into_transaction
from kpywire.record import Record, build_batch

BATCH = build_batch([Record(timestamp=1, value=b"v")], producer_id=1, producer_epoch=0, transactional=True)


def writes(records: bytes | None) -> bool:
    return writes_into_transaction([("t", [(0, None), (1, records)])])


def test_the_first_whole_batch_of_a_partition_decides() -> None:
    plain = build_batch([Record(timestamp=1, value=b"v")])
    assert writes(BATCH)
    assert writes(BATCH + b"more")
    assert not writes(plain + BATCH)


def test_a_batch_that_is_cut_off_writes_into_no_transaction() -> None:
    for end in range(len(BATCH)):
        assert not writes(BATCH[:end])
    assert not writes(None)
