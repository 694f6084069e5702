"""A controller and a broker apart: clients' requests travel in envelopes, and the controller authorises the client."""

from collections.abc import Iterator
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.envelopes import encoded_principal
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.node.assembly.security import NodeSecurity
from kpybroker.runtime.calls.principal import Principal
from kpywire import api, codec, error_codes
from kpywire.header import encode_request_header
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.envelope import EnvelopeRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.access import PLAIN_MODULE
from support.raw_client import RawClient
from support.waiting import becomes
from tests.cluster.running_cluster import RunningCluster, cluster_of
from tests.guards.named_clients import AUTHORIZER, PREFIX, name_clients

TOPIC_KIND, LITERAL, ALLOW = 2, 3, 3
READ, CREATE, DELETE = 3, 5, 6
DENIED = error_codes.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with pytest.MonkeyPatch.context() as patch:
        name_clients(patch)
        with cluster_of(tmp_path_factory.mktemp("guarded"), ["controller", "broker"], AUTHORIZER) as running:
            yield running


@pytest.fixture
def root(cluster: RunningCluster) -> Iterator[RawClient]:
    """A super user at the broker."""
    with RawClient(cluster.ports[2][0]) as client:
        yield client


@pytest.fixture
def alice(cluster: RunningCluster) -> Iterator[RawClient]:
    """A user without permissions at the broker."""
    with RawClient(cluster.ports[2][0], client_id=PREFIX + "alice") as client:
        yield client


def allow(root: RawClient, operation: int, name: str) -> None:
    creation = AclCreation(
        resource_type=TOPIC_KIND,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal="User:alice",
        host="127.0.0.1",
        operation=operation,
        permission_type=ALLOW,
    )
    assert root.call(CreateAclsRequest(creations=[creation]), 3).results[0].error_code == error_codes.NONE


def creation_of(*names: str) -> CreateTopicsRequest:
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000)


def created(client: RawClient, *names: str) -> dict[str, Any]:
    return {each.name: each for each in client.call(creation_of(*names), 7).topics}


def test_a_client_creates_and_deletes_what_it_may_through_a_controller_elsewhere(
    root: RawClient, alice: RawClient
) -> None:
    assert created(root, "hers", "others").keys() == {"hers", "others"}
    for name in ("mine", "hers"):
        allow(root, CREATE, name)
    answers = created(alice, "mine", "forbidden")
    assert answers["forbidden"].error_code == DENIED
    assert answers["forbidden"].error_message == "Authorization failed."
    mine = answers["mine"]
    assert (mine.error_code, mine.configs, mine.topic_config_error_code) == (error_codes.NONE, [], DENIED)

    topic_id = created(root, "hidden")["hidden"].topic_id
    wanted = [DeleteTopicState(name=None, topic_id=topic_id), DeleteTopicState(name="absent", topic_id=bytes(16))]
    answer = alice.call(DeleteTopicsRequest(topics=wanted, timeout_ms=30_000), 6)
    found = {(each.name, each.topic_id, each.error_code) for each in answer.responses}
    assert found == {(None, topic_id, DENIED), ("absent", bytes(16), DENIED)}
    allow(root, DELETE, "mine")
    by_name = DeleteTopicsRequest(topics=[DeleteTopicState(name="mine", topic_id=bytes(16))], timeout_ms=30_000)
    assert alice.call(by_name, 6).responses[0].error_code == error_codes.NONE


def test_configs_of_a_broker_are_refused_before_they_are_tried(alice: RawClient, root: RawClient) -> None:
    keystore = AlterableConfig(name="listener.name.none.ssl.keystore.location", value="/no/such", config_operation=0)
    resource = AlterConfigsResource(resource_type=4, resource_name="2", configs=[keystore])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    codes = [client.call(request, 1).responses[0].error_code for client in (alice, root)]
    assert codes == [error_codes.CLUSTER_AUTHORIZATION_FAILED, error_codes.INVALID_REQUEST]


def test_a_refusal_on_the_cluster_names_the_permission_that_is_missing(alice: RawClient) -> None:
    removed = DeleteAclsFilter(
        resource_type_filter=TOPIC_KIND,
        resource_name_filter=None,
        pattern_type_filter=LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=READ,
        permission_type=ALLOW,
    )
    (refused,) = alice.call(DeleteAclsRequest(filters=[removed]), 3).filter_results
    assert refused.error_code == error_codes.CLUSTER_AUTHORIZATION_FAILED
    assert refused.error_message == (
        "Request Request(api=DeleteAcls, principal=User:alice, clientAddress=127.0.0.1) needs ALTER permission."
    )


def enveloped(client: RawClient, principal: bytes, address: bytes) -> Any:
    data = encode_request_header(api.CREATE_TOPICS, 7, 1, "inside") + codec.encode(creation_of("inside"), 7)
    request = EnvelopeRequest(request_data=data, request_principal=principal, client_host_address=address)
    return client.call(request, 0)


def test_an_envelope_is_only_for_brokers_and_its_client_is_authorised(cluster: RunningCluster, root: RawClient) -> None:
    allow(root, CREATE, "inside")
    port = cluster.ports[1][1]
    alices, here, elsewhere = encoded_principal(Principal("User", "alice")), bytes((127, 0, 0, 1)), bytes((10, 0, 0, 1))
    with RawClient(port, client_id=PREFIX + "alice") as stranger:
        assert enveloped(stranger, alices, here).error_code == error_codes.CLUSTER_AUTHORIZATION_FAILED
    with RawClient(port) as broker:
        for address, code in ((elsewhere, DENIED), (here, error_codes.NONE)):
            answer = enveloped(broker, alices, address)
            assert answer.error_code == error_codes.NONE
            response = codec.decode(api.response_class(api.CREATE_TOPICS), 7, answer.response_data, 5)
            assert response.topics[0].error_code == code


@pytest.mark.parametrize("has_logins", [True, False])
def test_requests_are_forwarded_in_envelopes_as_soon_as_a_listener_has_logins(has_logins: bool) -> None:
    secured = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,SECURED://127.0.0.1:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="wonder";',
    }
    config = BrokerConfig.load(None, secured if has_logins else {})
    assert NodeSecurity(None).forwarding(config, MetadataImage("cluster")).in_envelopes is has_logins


def fetched(client: RawClient, replica_id: int, session: tuple[int, int]) -> Any:
    request = FetchRequest(
        cluster_id=None,
        replica_id=replica_id,
        replica_state=ReplicaState(),
        max_wait_ms=0,
        min_bytes=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="read", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
        if session[1] <= 0
        else [],
        forgotten_topics_data=[],
    )
    return client.call(request, 12)


def code_of(response: Any) -> int:
    return next((each.error_code for topic in response.responses for each in topic.partitions), error_codes.NONE)


def test_reading_needs_permission_at_each_fetch_and_a_forged_replica_reads_nothing(
    root: RawClient, alice: RawClient
) -> None:
    created(root, "read")
    becomes(lambda: code_of(fetched(root, -1, (0, 0))), error_codes.NONE)
    assert code_of(fetched(alice, -1, (0, 0))) == DENIED
    allow(root, READ, "read")
    becomes(lambda: code_of(fetched(alice, -1, (0, 0))), error_codes.NONE)
    assert code_of(fetched(alice, 2, (0, -1))) == DENIED
    removed = DeleteAclsFilter(
        resource_type_filter=TOPIC_KIND,
        resource_name_filter="read",
        pattern_type_filter=LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=READ,
        permission_type=ALLOW,
    )
    root.call(DeleteAclsRequest(filters=[removed]), 3)
    becomes(lambda: code_of(fetched(alice, -1, (0, 0))), DENIED)
