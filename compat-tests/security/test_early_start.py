"""Before the ACLs are loaded: only listeners that start early are served, and only super users get an answer there.

The node is the first of two voters and stays alone, so it never has a leader, and never loads its ACLs.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import started
from kpybroker.machines.answered_errors import errors_in
from kpywire import api, error_codes
from kpywire.codec import decode, encode
from kpywire.header import decode_response_header
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from kpywire.messages.default_principal_data import DefaultPrincipalData
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_quorum import DescribeQuorumRequest
from kpywire.messages.describe_quorum import DescribeQuorumRequestPartitionData as QuorumPartition
from kpywire.messages.describe_quorum import DescribeQuorumRequestTopicData as QuorumTopic
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oracle import BrokerProcess, free_port
from support.clusters import PROGRAMS, SHARED, Place
from support.envelopes import envelope_of
from support.quorum_requests import METADATA, vote_of
from support.raw_client import RawClient, api_key_of
from support.waiting import eventually

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
REQUESTS: tuple[tuple[Any, int], ...] = (
    (vote_of(1), 2),
    (
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic=METADATA,
                    partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
                )
            ],
            forgotten_topics_data=[],
        ),
        12,
    ),
    (
        DescribeQuorumRequest(
            topics=[QuorumTopic(topic_name=METADATA, partitions=[QuorumPartition(partition_index=0)])]
        ),
        2,
    ),
    (
        DescribeAclsRequest(
            resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
            host_filter=None, operation=1, permission_type=1,
        ),
        3,
    ),
    (
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])],
            timeout_ms=1_000,
        ),
        7,
    ),
)  # fmt: skip


Alone = Callable[..., AbstractContextManager[BrokerProcess]]


@pytest.fixture
def alone(target: str, tmp_path: Path) -> Alone:
    """Starts the only one of two voters, a controller. Its port is that of controllers."""
    if target not in PROGRAMS:
        pytest.skip("takes a node with its own configuration")

    @contextmanager
    def start(**settings: str) -> Any:
        port = free_port()
        properties = {
            **{key: value for key, value in SHARED.items() if key != "inter.broker.listener.name"},
            "process.roles": "controller",
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{port},2@127.0.0.1:{free_port()}",
            "authorizer.class.name": AUTHORIZER,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        node = PROGRAMS[target](Place(1, port, port), properties, tmp_path)
        node.properties.pop("advertised.listeners", None)
        started.append(node)
        node.prepare()
        node.launch()
        try:
            yield node
        finally:
            assert node.process is not None
            node.process.kill()
            node.process.wait()
            node.process = None

    return start


def answers(node: BrokerProcess, request: Any, version: int, timeout_s: float = 5) -> set[int]:
    """The errors in an answer, once the node gives one."""

    found: list[Any] = []

    def is_answered() -> bool:
        try:
            with RawClient(node.port, timeout_s=timeout_s) as raw:
                found.append(raw.call(request, version))
        except OSError:
            return False
        return True

    eventually(is_answered, "an answer", within_s=60)
    codes: list[int] = []
    errors_in(api.response_class(api_key_of(request)))(found[0], codes)
    return set(codes)


def test_until_the_acls_are_loaded_others_than_super_users_hear_of_an_unknown_error(alone: Alone) -> None:
    with alone(super_users="User:admin") as node:
        versions = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        assert answers(node, versions, 3) == set()
        found = {api.API_KEYS[api_key_of(each)].name: answers(node, each, version) for each, version in REQUESTS}
        assert found == {name: {error_codes.UNKNOWN_SERVER_ERROR} for name in found}


def test_super_users_are_served_meanwhile(alone: Alone) -> None:
    with alone(super_users="User:ANONYMOUS") as node:
        assert error_codes.UNKNOWN_SERVER_ERROR not in answers(node, *REQUESTS[0])


def test_the_error_of_a_request_in_an_envelope_is_inside(alone: Alone) -> None:
    request, version = REQUESTS[-1]
    alice = b"\0\0" + encode(DefaultPrincipalData(type="User", name="alice", token_authenticated=False), 0)
    envelope = envelope_of(request, version, request_principal=alice)
    with alone(super_users="User:ANONYMOUS") as node:
        assert answers(node, envelope, 0) == set()
        with RawClient(node.port) as raw:
            answer = raw.call(envelope, 0)
        _, start = decode_response_header(api.CREATE_TOPICS, version, answer.response_data)
        (topic,) = decode(CreateTopicsResponse, version, answer.response_data, start).topics
        assert topic.error_code == error_codes.UNKNOWN_SERVER_ERROR


def test_a_listener_that_does_not_start_early_is_not_served(alone: Alone, target: str) -> None:
    if target == "apache-kafka":
        pytest.skip("its port is closed: it looks as it does while the node starts")
    with alone(super_users="User:ANONYMOUS", early_start_listeners="") as node:
        eventually(lambda: is_quiet(node), "a node that listens", within_s=60)


def is_quiet(node: BrokerProcess) -> bool:
    """Whether a client can connect, and gets no answer."""
    try:
        with RawClient(node.port, timeout_s=3) as raw:
            raw.call(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    except TimeoutError:
        return True
    except OSError:
        return False
    raise AssertionError("it answers")
