"""FindCoordinator and InitProducerId on the wire, as Apache Kafka answers them.

What InitProducerId does with a transactional id is in ``test_protocol_transactions.py``.
"""

import pytest

from conftest import StartBroker
from kpywire import error_codes
from kpywire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from support.raw_client import RawClient, connect
from support.raw_requests import metadata_of
from support.waiting import eventually

GROUP, TRANSACTION, SHARE = range(3)
OFFSETS = "__consumer_offsets"
MALFORMED = error_codes.message(error_codes.INVALID_REQUEST)


def coordinators(raw: RawClient, version: int, *keys: str, key_type: int = GROUP) -> list[Coordinator]:
    """The answer for each key, as the batched versions give it."""
    if version >= 4:
        found: list[Coordinator] = raw.call(
            FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type), version
        ).coordinators
        return found
    answers = []
    for key in keys:
        one = raw.call(FindCoordinatorRequest(key=key, key_type=key_type), version)
        answers.append(
            Coordinator(
                key=key,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
                error_code=one.error_code,
                error_message=one.error_message,
            )
        )
    return answers


@pytest.fixture
def group_topic(raw: RawClient) -> None:
    """Groups have coordinators; the first question creates the topic they live in."""
    eventually(lambda: not coordinators(raw, 6, "g")[0].error_code, "a coordinator")


def test_the_first_question_makes_the_internal_topic(start_broker: StartBroker) -> None:
    """Apache Kafka asks the client to come again; kpybroker may make it wait the few milliseconds that it takes."""
    bootstrap_servers = start_broker().bootstrap_servers
    with connect(bootstrap_servers) as raw:
        assert metadata_of(raw, OFFSETS).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
        (old,) = coordinators(raw, 3, "g")
        if old.error_code == error_codes.NONE:
            assert f"{old.host}:{old.port}" == bootstrap_servers
        else:
            unknown = (error_codes.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
            assert (old.error_code, old.node_id, old.host, old.port) == unknown
            assert old.error_message == error_codes.message(error_codes.COORDINATOR_NOT_AVAILABLE)
        eventually(lambda: metadata_of(raw, OFFSETS).error_code == error_codes.NONE, "the internal topic")
        topic = metadata_of(raw, OFFSETS)
        assert topic.is_internal
        eventually(lambda: not coordinators(raw, 6, "g")[0].error_code, "a coordinator")


@pytest.mark.usefixtures("group_topic")
@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_coordinator_of_a_group(raw: RawClient, bootstrap_servers: str, version: int) -> None:
    for key in ("g", "", "grüße"):
        (found,) = coordinators(raw, version, key)
        assert (found.key, found.error_code) == (key, error_codes.NONE)
        assert f"{found.host}:{found.port}" == bootstrap_servers
        assert found.node_id >= 0
        if version >= 1:
            assert found.error_message == ("" if version >= 4 else "NONE")


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_finds_the_coordinator_of_a_transactional_id(
    raw: RawClient, bootstrap_servers: str, version: int
) -> None:
    eventually(lambda: not coordinators(raw, 6, "t", key_type=TRANSACTION)[0].error_code, "a coordinator")
    for key in ("t", "", "grüße"):
        (found,) = coordinators(raw, version, key, key_type=TRANSACTION)
        assert (found.key, found.error_code) == (key, error_codes.NONE)
        assert f"{found.host}:{found.port}" == bootstrap_servers
    assert metadata_of(raw, "__transaction_state").is_internal


@pytest.mark.usefixtures("group_topic")
@pytest.mark.parametrize("version", [4, 5, 6])
def test_several_groups_are_answered_in_order(raw: RawClient, version: int) -> None:
    assert [found.key for found in coordinators(raw, version, "b", "a", "b")] == ["b", "a", "b"]
    assert coordinators(raw, version) == []


@pytest.mark.parametrize("key_type", [-1, 3, 100])
@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_refuses_an_unknown_key_type(raw: RawClient, version: int, key_type: int) -> None:
    keys = ("g", "h") if version >= 4 else ("g",)
    answers = coordinators(raw, version, *keys, key_type=key_type)
    assert [found.key for found in answers] == list(keys)
    for found in answers:
        assert (found.error_code, found.error_message) == (error_codes.INVALID_REQUEST, MALFORMED)
        assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.parametrize("version", range(1, 6))
def test_share_partitions_are_no_key_before_version_six(raw: RawClient, version: int) -> None:
    (found,) = coordinators(raw, version, "g:AAAAAAAAAAAAAAAAAAAAAA:0", key_type=SHARE)
    assert (found.error_code, found.node_id) == (error_codes.INVALID_REQUEST, -1)
    assert found.error_message == ("" if version >= 4 else MALFORMED)


@pytest.mark.parametrize("key", ["", "g", "a:b:c", "g:AAAAAAAAAAAAAAAAAAAAAA:x"])
def test_an_invalid_share_partition_key_has_no_coordinator(raw: RawClient, key: str) -> None:
    (found,) = coordinators(raw, 6, key, key_type=SHARE)
    assert (found.key, found.error_code, found.error_message) == (key, error_codes.INVALID_REQUEST, "")


# InitProducerId


def producer_id(
    raw: RawClient, version: int, *, transactional_id: str | None = None, timeout_ms: int = 1000, **old: int
) -> InitProducerIdResponse:
    """The answer, once the broker has ids: Apache Kafka asks to come again while it fetches its first ones."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, **old)
    answers: list[InitProducerIdResponse] = []

    def settled() -> bool:
        answers.append(raw.call(request, version))
        return answers[-1].error_code != error_codes.COORDINATOR_LOAD_IN_PROGRESS

    eventually(settled, "producer ids")
    return answers[-1]


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(raw: RawClient, version: int) -> None:
    given = [producer_id(raw, version, timeout_ms=timeout_ms) for timeout_ms in (1000, 0, -1, 2**31 - 1)]
    assert {(answer.error_code, answer.producer_epoch) for answer in given} == {(error_codes.NONE, 0)}
    ids = [answer.producer_id for answer in given]
    assert len(set(ids)) == len(ids)
    assert min(ids) >= 0
    for answer in given:
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == (-1, -1)


@pytest.mark.parametrize("version", range(6))
def test_an_empty_transactional_id_is_none(raw: RawClient, version: int) -> None:
    answer = producer_id(raw, version, transactional_id="")
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error_codes.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_idempotent_producer_that_names_its_id_gets_another(raw: RawClient, version: int) -> None:
    first = producer_id(raw, version)
    for epoch in (0, 7, 32767):
        again = producer_id(raw, version, producer_id=first.producer_id, producer_epoch=epoch)
        assert (again.error_code, again.producer_epoch) == (error_codes.NONE, 0)
        assert again.producer_id != first.producer_id


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_id_and_its_epoch_come_together(raw: RawClient, version: int) -> None:
    for old_id, old_epoch in ((5, -1), (-1, 5)):
        answer = producer_id(raw, version, producer_id=old_id, producer_epoch=old_epoch)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error_codes.INVALID_REQUEST, -1, -1)
