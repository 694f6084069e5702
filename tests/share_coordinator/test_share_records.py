"""The records of ``__share_group_state``: read as written; foreign types are left out, damage is reported."""

import pytest
from share_coordinator_world import KEY

from kpybroker.machines.share_coordinator.record import Record, ShareSnapshot, ShareStateEnd, Update, decode
from kpybroker.machines.share_coordinator.state_batches import StateBatch
from kpywire.errors import Malformed

BATCHES = (StateBatch(1, 5, 2, 0), StateBatch(6, 6, 1, 4))
RECORDS: tuple[Record, ...] = (
    ShareSnapshot(KEY, 3, 2, 1, 1, 4, 1_000, 2_000, BATCHES),
    Update(KEY, 3, -1, -1, -1, BATCHES),
    ShareStateEnd(KEY),
)


@pytest.mark.parametrize("record", RECORDS)
def test_a_record_is_read_as_it_is_written(record: Record) -> None:
    assert decode(*record.encoded()) == record


def test_a_type_of_a_later_version_is_left_out() -> None:
    assert decode(b"\0\x07whatever", None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"\0", None), (b"\0\0", None), (RECORDS[0].encoded()[0], b"\0\0x"), (RECORDS[1].encoded()[0], None)],
)
def test_damage_is_reported(key: bytes, value: bytes | None) -> None:
    with pytest.raises(Malformed):
        decode(key, value)
