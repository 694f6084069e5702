"""Every API as users with exactly one permission, or with exactly one missing, beside Apache Kafka.

Kafka's users log in by PLAIN; ours are named by their client ids, so that this suite needs no login here.
``KPYBROKER_EVERY_PERMISSION=1`` plays every version and user: `make permissions`.
"""

import os
from collections.abc import Iterator
from functools import partial

import pytest

from kpybroker.requests import handlers
from kpywire import api, error_codes
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from oracle import ApacheKafka, free_port
from oracle.process import HOST
from support.permitted import SINGLE, UNPRIVILEGED, Asking, allow, asked_of, jaas, logged_in, user_without, users
from support.plausible_requests import plausible
from support.raw_client import RawClient
from support.streams_requests import IN_MEMORY_PLUGIN
from support.waiting import becomes
from tests.broker.running_node import RunningNode
from tests.guards.named_clients import AUTHORIZER, PREFIX, name_clients

EVERY = bool(os.environ.get("KPYBROKER_EVERY_PERMISSION"))
TOPIC = "guarded"
SMALL_TOPICS = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.streams.topology.description.plugin.class": IN_MEMORY_PLUGIN,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[tuple[int, int]]:
    """Apache Kafka with users; its ports for super users and for users."""
    clients = free_port()
    node = ApacheKafka({**SMALL_TOPICS, **AUTHORIZER})
    listeners = node.properties["listeners"] + f",CLIENTS://{HOST}:{clients}"
    node.properties |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas(),
    }
    with node:
        yield node.port, clients


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a node that takes client ids for users."""
    with pytest.MonkeyPatch.context() as patch:
        name_clients(patch)
        node = RunningNode({"log.dirs": str(tmp_path_factory.mktemp("ours")), **SMALL_TOPICS, **AUTHORIZER})
        yield node.port
        node.stop()


def prepare(port: int) -> None:
    """Create the topic and the ACLs, and wait for the last of them."""
    with RawClient(port) as client:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        allow(client)
        becomes(lambda: coordinated(client), [0, 0, 0, 0])


def coordinated(client: RawClient) -> list[int]:
    """The errors while the coordinators begin their work."""
    found = [client.call(FindCoordinatorRequest(key="g", key_type=kind), 3).error_code for kind in (0, 1)]
    asked = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    offsets = client.call(OffsetFetchRequest(group_id="g", topics=[asked]), 1)
    found.append(client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4).error_code)
    return [*found, offsets.topics[0].partitions[0].error_code]


def described(client: RawClient) -> int:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    return int(client.call(request, 1).cluster_authorized_operations)


def differences(kafkas: Asking, our: Asking, user: str) -> list[str]:
    found = []
    for key, version in asked_of(handlers.served_versions(), every=EVERY):
        request = plausible(key, version, TOPIC)
        if request is None:
            continue
        name = api.API_KEYS[key].name
        theirs, here = kafkas.answer(request, version), our.answer(request, version)
        if theirs != here:
            found.append(f"{user} {name} v{version}\n    kafka {theirs}\n    ours  {here}")
    return found


@pytest.mark.java
def test_each_api_answers_users_without_a_permission_as_kafka_does(kafka: tuple[int, int], ours: int) -> None:
    for port in (kafka[0], ours):
        prepare(port)
    found: list[str] = []
    last = user_without(list(SINGLE)[-1])
    with logged_in(kafka[1], last) as one, RawClient(ours, client_id=PREFIX + last) as other:
        becomes(lambda: described(one) > 0, True)
        becomes(lambda: described(other) > 0, True)
    for user in users() if EVERY else (UNPRIVILEGED, "cluster-8", "topic-8", "group-8", "transactional-8"):
        kafkas = Asking(partial(logged_in, kafka[1], user))
        our = Asking(partial(RawClient, ours, client_id=PREFIX + user))
        found += differences(kafkas, our, user)
        kafkas.close()
        our.close()
    assert not found, "\n".join(found)


@pytest.mark.java
def test_configs_of_a_broker_are_refused_as_kafka_refuses_them(kafka: tuple[int, int], ours: int) -> None:
    """The permission comes before the values, but not before values that are missing."""
    values = {
        "listener.name.none.ssl.keystore.location": "/no/such",
        "num.io.threads": "-1",
        "log.dirs": "x",
        "log.retention.ms": None,
    }
    found = []
    for client in (logged_in(kafka[1], UNPRIVILEGED), RawClient(ours, client_id=PREFIX + UNPRIVILEGED)):
        with client:
            found.append([set_config(client, name, value) for name, value in values.items()])
    assert found[1] == found[0]
    assert [code for code, _ in found[0]] == [
        *[error_codes.CLUSTER_AUTHORIZATION_FAILED] * 3,
        error_codes.INVALID_REQUEST,
    ]


def set_config(client: RawClient, name: str, value: str | None) -> tuple[int, str | None]:
    config = AlterableConfig(name=name, value=value, config_operation=0)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=True), 1).responses[0]
    return answer.error_code, answer.error_message
