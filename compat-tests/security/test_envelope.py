"""Requests in an envelope from a broker to a controller are answered as by Apache Kafka; broken envelopes too."""

from collections.abc import Iterator
from struct import pack
from typing import Any

import pytest

from cluster.test_protocol_controller import node as node
from kpywire import api, error_codes
from kpywire.codec import decode
from kpywire.header import decode_response_header
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from oracle import BrokerProcess
from protocol.test_protocol_versions import advertised
from support.admin_requests import quorum_of
from support.envelopes import CORRELATION_ID, PRINCIPAL, envelope_of, inside
from support.quorum_requests import METADATA
from support.raw_client import RawClient

UNKNOWN_BROKER = UnregisterBrokerRequest(broker_id=4711)
HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=1, broker_epoch=1, current_metadata_offset=1, want_fence=True, want_shut_down=False
)
IPV6 = bytes(15) + b"\1"


@pytest.fixture
def controller(node: tuple[BrokerProcess, int]) -> Iterator[RawClient]:
    with RawClient(node[1]) as client:
        yield client


def opened(answer: Any, key: int, version: int) -> Any:
    """The response in an envelope."""
    assert answer.error_code == error_codes.NONE
    correlation_id, start = decode_response_header(key, version, answer.response_data)
    assert correlation_id == CORRELATION_ID
    return decode(api.response_class(key), version, answer.response_data, start)


def creation(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=10_000)


def test_controllers_take_envelopes_and_brokers_do_not(node: tuple[BrokerProcess, int], controller: RawClient) -> None:
    assert advertised(controller)[api.ENVELOPE] == (0, 0)
    host, _, port = node[0].bootstrap_servers.rpartition(":")
    with RawClient(int(port)) as broker:
        assert api.ENVELOPE not in advertised(broker)
        broker.send(envelope_of(UNKNOWN_BROKER, 0), 0)
        assert broker.is_closed(), host


@pytest.mark.parametrize("version", [2, 7])
def test_the_request_inside_is_decided_and_answered_with_its_own_header(controller: RawClient, version: int) -> None:
    names = [f"enveloped-{version}", "no/topic"]
    answer = controller.call(envelope_of(creation(*names), version, client_host_address=IPV6), 0)
    made = opened(answer, api.CREATE_TOPICS, version).topics
    assert {each.name: each.error_code for each in made} == {
        names[0]: error_codes.NONE,
        names[1]: error_codes.INVALID_TOPIC_EXCEPTION,
    }


def test_many_at_once_are_decided_too(controller: RawClient) -> None:
    names = [f"many-{number}" for number in range(200)]
    request = creation(*names)
    request.validate_only = True
    made = opened(controller.call(envelope_of(request, 7), 0), api.CREATE_TOPICS, 7).topics
    assert {(each.name, each.error_code) for each in made} == {(name, error_codes.NONE) for name in names}


def test_an_error_of_the_request_is_in_its_own_answer(controller: RawClient) -> None:
    gone = opened(controller.call(envelope_of(UNKNOWN_BROKER, 0), 0), api.UNREGISTER_BROKER, 0)
    assert gone.error_code == error_codes.BROKER_ID_NOT_REGISTERED
    quorum = opened(controller.call(envelope_of(quorum_of((METADATA, [0])), 2), 0), api.DESCRIBE_QUORUM, 2)
    assert quorum.error_code == error_codes.NONE
    assert quorum.topics[0].partitions[0].leader_id == 1


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"request_principal": None}, error_codes.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b""}, error_codes.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": b"\0\1" + PRINCIPAL[2:]}, error_codes.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": PRINCIPAL[:-3]}, error_codes.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"\1\2\3"}, error_codes.INVALID_REQUEST),
        ({"client_host_address": b""}, error_codes.INVALID_REQUEST),
        ({"client_host_address": b"", "request_principal": b""}, error_codes.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"", "request_data": b""}, error_codes.INVALID_REQUEST),
        ({"request_data": b""}, error_codes.UNSUPPORTED_VERSION),
        ({"request_data": inside(UNKNOWN_BROKER, 0)[:6]}, error_codes.UNSUPPORTED_VERSION),
        ({"request_data": inside(UNKNOWN_BROKER, 0)[:-2]}, error_codes.UNSUPPORTED_VERSION),
        ({"request_data": pack(">hhih", 999, 0, 1, -1)}, error_codes.UNSUPPORTED_VERSION),
        ({"request_data": pack(">hhih", api.CREATE_TOPICS, 99, 1, -1) + b"\0"}, error_codes.UNSUPPORTED_VERSION),
    ],
)
def test_a_request_without_a_valid_envelope_is_refused(
    controller: RawClient, changes: dict[str, Any], code: int
) -> None:
    answer = controller.call(envelope_of(UNKNOWN_BROKER, 0, **changes), 0)
    assert (answer.error_code, answer.response_data) == (code, None)


@pytest.mark.parametrize(
    ("request_inside", "version"),
    [
        (MetadataRequest(topics=[]), 9),
        (DescribeConfigsRequest(resources=[]), 4),
        (HEARTBEAT, 0),
        (envelope_of(UNKNOWN_BROKER, 0), 0),
    ],
)
def test_requests_that_clients_do_not_send_to_controllers_are_not_forwarded(
    controller: RawClient, request_inside: Any, version: int
) -> None:
    answer = controller.call(envelope_of(request_inside, version), 0)
    assert (answer.error_code, answer.response_data) == (error_codes.INVALID_REQUEST, None)


def test_only_what_kafka_passes_on_may_be_inside(controller: RawClient) -> None:
    """The version is one that nothing has, so that what may be inside is refused by another error."""
    codes: dict[int, list[str]] = {}
    for key, entry in api.API_KEYS.items():
        data = pack(">hhih", key, 99, 1, -1) + b"\0\0\0\0"
        answer = controller.call(envelope_of(UNKNOWN_BROKER, 0, request_data=data), 0)
        codes.setdefault(answer.error_code, []).append(entry.name)
    assert sorted(codes) == sorted((error_codes.UNSUPPORTED_VERSION, error_codes.INVALID_REQUEST))
    allowed = (
        "AddRaftVoter AllocateProducerIds AlterClientQuotas AlterConfigs AlterPartitionReassignments "
        "AlterUserScramCredentials CreateAcls CreateDelegationToken CreatePartitions CreateTopics DeleteAcls "
        "DeleteTopics DescribeQuorum ElectLeaders ExpireDelegationToken IncrementalAlterConfigs "
        "ListPartitionReassignments RemoveRaftVoter RenewDelegationToken UnregisterBroker "
        "UnregisterController UpdateFeatures"
    )
    assert " ".join(sorted(codes[error_codes.UNSUPPORTED_VERSION])) == allowed
