"""``transaction.version`` 0, 1 and 2: raised and lowered while the broker runs, with clients of both generations."""

import pytest

from conftest import StartBroker
from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.record import Record
from support.raw_client import RawClient, connect
from support.raw_requests import create
from support.raw_transactions import (
    ADDING,
    Transactional,
    committed_values,
    fetch,
    find_coordinator,
    records_in,
    stable_end,
)
from support.waiting import eventually

FEATURE = "transaction.version"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def finalized(raw: RawClient) -> dict[str, int]:
    """The levels that clients see; one at 0 is not listed."""
    answer = raw.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    assert supported[FEATURE] == (0, 2)
    return {each.name: each.max_version_level for each in answer.finalized_features}


def update(raw: RawClient, level: int, how: int) -> tuple[int, str | None]:
    """UpdateFeatures of the one feature: error code and message."""
    change = FeatureUpdateKey(feature=FEATURE, max_version_level=level, upgrade_type=how)
    answer = raw.call(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[change]), 2)
    return answer.error_code, answer.error_message


def set_level(raw: RawClient, level: int) -> None:
    how = UPGRADE if level >= finalized(raw).get(FEATURE, 0) else SAFE_DOWNGRADE
    assert update(raw, level, how)[0] == error_codes.NONE
    eventually(lambda: finalized(raw).get(FEATURE, 0) == level, "the level")


def states_in_the_log(raw: RawClient) -> list[tuple[int, int]]:
    """(version, status) of the records of the coordinator's log."""
    records: list[Record] = []
    offset, end = 0, stable_end(raw, "__transaction_state")
    while offset < end:
        records += records_in(fetch(raw, "__transaction_state", offset, committed=False))
        offset = records[-1].offset + 1
    # Behind the version: producer id and epoch, the timeout, and with tagged fields the same up to the status.
    return [(each.value[1], each.value[16]) for each in records if each.value is not None]


def run(producer: Transactional, topic: str, value: bytes, *, adds: bool) -> None:
    """One transaction by a client of either generation."""
    if not adds:
        assert producer.add((topic, 0)) == {error_codes.NONE}
    version = ADDING if adds else 11
    before = stable_end(producer.raw, topic)
    assert producer.produce(topic, value, version=version).error_code == error_codes.NONE
    assert producer.end(True, 5 if adds else 4).error_code == error_codes.NONE
    eventually(lambda: stable_end(producer.raw, topic) == before + 2, "the marker")
    producer.until("CompleteCommit")


def test_levels_rise_and_fall_under_running_producers(start_broker: StartBroker) -> None:
    broker = start_broker(transaction_state_log_num_partitions="1")
    with connect(broker.bootstrap_servers) as raw:
        assert finalized(raw)[FEATURE] == 2
        create(raw, "t", 1)
        old, new = Transactional(raw, "old"), Transactional(raw, "new")
        find_coordinator(raw, "old")
        assert old.init().error_code == new.init().error_code == error_codes.NONE
        values = []
        for level in (2, 1, 0, 2):
            set_level(raw, level)
            for producer, adds in ((old, False), (new, True)):
                values.append(f"{level}-{producer.id}".encode())
                run(producer, "t", values[-1], adds=adds and level > 0)  # at 0 clients know nothing else
        assert (old.epoch, new.epoch) == (0, 3)
        assert committed_values(raw, "t") == values
        versions = {version for version, _ in states_in_the_log(raw)}
        assert versions == {0, 1}
    broker.restart()
    with connect(broker.bootstrap_servers) as raw:
        assert finalized(raw)[FEATURE] == 2
        find_coordinator(raw, "old")
        for producer in (old, new):
            producer.raw = raw
            eventually(lambda: producer.describe().transaction_state == "CompleteCommit", "the state")  # noqa: B023
            assert producer.describe().producer_epoch == producer.epoch


@pytest.mark.parametrize(("level", "how"), [(3, UPGRADE), (-1, SAFE_DOWNGRADE), (1, UPGRADE), (1, 7)])
def test_levels_that_cannot_be(raw: RawClient, level: int, how: int) -> None:
    code, message = update(raw, level, how)
    assert code == error_codes.INVALID_UPDATE_VERSION
    assert f"Invalid update version {level} for feature {FEATURE}." in (message or "")
