"""A partition that knows a newer epoch of a producer refuses the older one, whatever the coordinator says of it."""

import secrets

import pytest

from kpywire import error_codes
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.raw_requests import now_ms
from support.raw_transactions import ADDING, Transactional, find_coordinator, produce_records, stable_end


@pytest.mark.parametrize("version", [9, 11, ADDING])
def test_whose_successor_has_written_is_fenced_before_the_coordinator_is_asked(
    raw: RawClient, topic: str, version: int
) -> None:
    producer = Transactional(raw, f"fenced-{secrets.token_hex(4)}")
    find_coordinator(raw, producer.id)
    assert producer.init().error_code == error_codes.NONE
    nobodys = producer.producer_id + 100_000
    later = build_batch(
        [Record(timestamp=now_ms(), value=b"b")], producer_id=nobodys, producer_epoch=1, base_sequence=0
    )
    assert produce_records(raw, topic, later, None).error_code == error_codes.NONE
    older = Transactional(raw, producer.id, nobodys, 0)
    assert older.produce(topic, b"a", version=version).error_code == error_codes.INVALID_PRODUCER_EPOCH
    assert stable_end(raw, topic) == 1
