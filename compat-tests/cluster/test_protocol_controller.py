"""The APIs of a controller's listener, and how they differ from a broker's (KIP-919)."""

from collections.abc import Iterator

import pytest

from conftest import started
from kpywire import api, error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from oracle import ApacheKafka, BrokerProcess, free_port
from oracle.process import HOST
from protocol.test_protocol_versions import advertised
from support.admin_requests import plausible_admin, quorum_of
from support.java_tools import JavaTools
from support.plausible_requests import plausible
from support.raw_client import RawClient, connect
from support.raw_requests import (
    BROKER,
    BROKER_LOGGER,
    DELETE,
    SET,
    TOPIC,
    alteration,
    changed,
    configs_become,
    creation,
    described,
    incremental_alteration,
    topic_named,
)
from support.targets import TARGETS

BROKERS, CONTROLLERS = 1, 2
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
ADMINISTRATIVE = (
    "AddRaftVoter RemoveRaftVoter "
    "AlterConfigs AlterPartitionReassignments ApiVersions CreateAcls CreateDelegationToken CreatePartitions "
    "CreateTopics DeleteAcls DeleteTopics "
    "DescribeAcls DescribeCluster DescribeConfigs DescribeQuorum ElectLeaders ExpireDelegationToken "
    "IncrementalAlterConfigs ListPartitionReassignments RenewDelegationToken SaslAuthenticate SaslHandshake "
    "UnregisterBroker UnregisterController UpdateFeatures"
)


@pytest.fixture(scope="module")
def node(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, int]]:
    """A node with a controller's listener, and that listener's port."""
    broker = TARGETS[startable_target]({}, directory=tmp_path_factory.mktemp("controller"))
    if isinstance(broker, ApacheKafka):
        port = broker.controller_port
    else:
        port = free_port()
        listeners = f"PLAINTEXT://{HOST}:{broker.port},CONTROLLER://{HOST}:{port}"
        broker.properties |= {  # type: ignore[attr-defined]
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": listeners,
            "advertised.listeners": listeners,
        }
    with broker:
        started.append(broker)
        yield broker, port
        started.remove(broker)


@pytest.fixture
def controller(node: tuple[BrokerProcess, int]) -> Iterator[RawClient]:
    with RawClient(node[1]) as client:
        yield client


@pytest.fixture
def broker(node: tuple[BrokerProcess, int]) -> Iterator[RawClient]:
    with connect(node[0].bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="module")
def topic(node: tuple[BrokerProcess, int]) -> str:
    """A topic that was created by the controller's listener."""
    with RawClient(node[1]) as client:
        (made,) = client.call(creation(topic_named("made-by-controller", 2)), 7).topics
    assert (made.error_code, made.num_partitions) == (error_codes.NONE, 2)
    return "made-by-controller"


def test_the_administrative_requests_are_served_at_every_version(controller: RawClient, topic: str) -> None:
    served = advertised(controller)
    assert {api.API_KEYS[key].name for key in served} >= set(ADMINISTRATIVE.split())
    by_name = {entry.name: entry for entry in api.API_KEYS.values()}
    for name in ADMINISTRATIVE.split():
        entry = by_name[name]
        assert served[entry.key] == (entry.min_version, entry.max_version)
        for version in range(entry.min_version, entry.max_version + 1):
            request = plausible_admin(version, topic).get(entry.key) or plausible(entry.key, version, topic)
            if isinstance(request, DescribeClusterRequest) and version >= 1:
                request.endpoint_type = CONTROLLERS
            controller.call(request, version)


def test_requests_for_brokers_close_the_connection_to_a_controller(controller: RawClient) -> None:
    controller.send(MetadataRequest(topics=[]), 9)
    assert controller.is_closed()


@pytest.mark.parametrize("version", [1, 2])
def test_the_controllers_are_described(node: tuple[BrokerProcess, int], controller: RawClient, version: int) -> None:
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS, include_cluster_authorized_operations=True)
    cluster = controller.call(request, version)
    assert (cluster.error_code, cluster.error_message) == (error_codes.NONE, None)
    assert (cluster.endpoint_type, cluster.controller_id) == (CONTROLLERS, 1)
    assert cluster.cluster_authorized_operations == CLUSTER_OPERATIONS
    found = [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in cluster.brokers]
    assert found == [(1, HOST, node[1], None, False)]


def test_a_controller_answers_for_controllers_only(controller: RawClient) -> None:
    mismatch = "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
    cluster = controller.call(DescribeClusterRequest(), 0)
    assert (cluster.error_code, cluster.error_message) == (error_codes.INVALID_REQUEST, mismatch)
    for version in (1, 2):
        cluster = controller.call(DescribeClusterRequest(endpoint_type=BROKERS), version)
        assert (cluster.error_code, cluster.error_message) == (error_codes.MISMATCHED_ENDPOINT_TYPE, mismatch)
        assert (cluster.cluster_id, cluster.controller_id, cluster.brokers) == ("", -1, [])
        cluster = controller.call(DescribeClusterRequest(endpoint_type=3), version)
        assert cluster.error_code == error_codes.UNSUPPORTED_ENDPOINT_TYPE


def test_the_quorum_listens_where_the_controller_does(
    node: tuple[BrokerProcess, int], controller: RawClient, broker: RawClient
) -> None:
    for client in (controller, broker):
        (voter,) = client.call(quorum_of(("__cluster_metadata", [0])), 2).nodes
        found = [(listener.name, listener.host, listener.port) for listener in voter.listeners]
        assert (voter.node_id, found) == (1, [("CONTROLLER", HOST, node[1])])


def test_features_are_those_of_the_broker(controller: RawClient, broker: RawClient) -> None:
    request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    one, other = (client.call(request, 4) for client in (controller, broker))
    assert {each.name: each for each in one.supported_features} == {
        each.name: each for each in other.supported_features
    }
    finalized = {each.name: each.max_version_level for each in one.finalized_features}
    assert finalized == {each.name: each.max_version_level for each in other.finalized_features}
    assert (finalized["metadata.version"], finalized["kraft.version"]) == (33, 1)


def test_configs_are_described_as_by_the_broker(controller: RawClient, broker: RawClient, topic: str) -> None:
    for kind, name in ((TOPIC, topic), (BROKER, "1"), (BROKER_LOGGER, "1")):
        assert described(controller, kind, name, synonyms=True) == described(broker, kind, name, synonyms=True)


INCREMENTAL_REFUSALS: list[tuple[int, str, list[tuple[str, int, str | None]], int, str]] = [
    (TOPIC, "no-such-topic", [("retention.ms", SET, "1")], 3, "The topic 'no-such-topic' does not exist."),
    (
        TOPIC,
        "made-by-controller",
        [("retention.ms", SET, "x")],
        40,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (BROKER, "9", [("log.retention.ms", SET, "1")], 102, "No node with id 9 found."),
    (BROKER, "x", [], 42, "Unable to parse broker name as a base 10 number."),
    (BROKER, "-1", [], 42, "Invalid negative broker ID."),
    (BROKER_LOGGER, "9", [], 42, "Unexpected node id. Expected 1, but received 9"),
    (BROKER_LOGGER, "x", [], 42, "Node id must be an integer, but it is: x"),
    (BROKER_LOGGER, "1", [("no.such.logger", SET, "INFO")], 40, "Logger no.such.logger does not exist!"),
    (BROKER_LOGGER, "1", [("root", DELETE, None)], 42, "Removing the log level of the root logger is not allowed"),
    (99, "x", [], 35, "Unknown resource type 99."),
]


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize("refusal", INCREMENTAL_REFUSALS, ids=lambda refusal: refusal[4])
def test_configs_are_judged_by_the_controller(
    controller: RawClient, refusal: tuple[int, str, list[tuple[str, int, str | None]], int, str]
) -> None:
    kind, name, operations, code, message = refusal
    request = incremental_alteration((kind, name, operations), validate_only=True)
    assert changed(controller, request, 1) == {(kind, name): (code, message)}


def test_all_configs_of_a_resource_are_judged_by_the_controller(controller: RawClient, topic: str) -> None:
    loggers = alteration((BROKER_LOGGER, "1", {}), (TOPIC, topic, {"retention.ms": "1"}), validate_only=True)
    assert changed(controller, loggers, 2) == {
        (BROKER_LOGGER, "1"): (error_codes.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER."),
        (TOPIC, topic): (error_codes.NONE, None),
    }
    again = alteration((TOPIC, topic, {}), (TOPIC, topic, {}), validate_only=True)
    responses = controller.call(again, 2).responses
    found = [(answer.error_code, answer.error_message) for answer in responses]
    assert found == [(error_codes.INVALID_REQUEST, "Duplicate resource.")]


def test_configs_set_at_the_controller_apply_to_the_broker(
    controller: RawClient, broker: RawClient, topic: str
) -> None:
    wanted = (TOPIC, topic, [("retention.ms", SET, "90000")]), (BROKER, "1", [("message.max.bytes", SET, "2000000")])
    assert set(changed(controller, incremental_alteration(*wanted), 1).values()) == {(error_codes.NONE, None)}
    configs_become(broker, BROKER, "1", {"message.max.bytes": "2000000"})
    configs_become(broker, TOPIC, topic, {"retention.ms": "90000"})
    root = described(controller, BROKER_LOGGER, "1")["root"].value
    request = incremental_alteration((BROKER_LOGGER, "1", [("root", SET, root)]))
    assert changed(controller, request, 1) == {(BROKER_LOGGER, "1"): (error_codes.NONE, None)}


def test_elections_and_departures_are_the_controllers(controller: RawClient, topic: str) -> None:
    wanted = [TopicPartitions(topic=topic, partitions=[0])]
    response = controller.call(ElectLeadersRequest(topic_partitions=wanted, timeout_ms=10_000), 2)
    (result,) = response.replica_election_results[0].partition_result
    assert result.error_code == error_codes.ELECTION_NOT_NEEDED
    gone = controller.call(UnregisterBrokerRequest(broker_id=77), 0)
    assert gone.error_code == error_codes.BROKER_ID_NOT_REGISTERED
    gone = controller.call(UnregisterControllerRequest(controller_id=77), 0)
    assert gone.error_code == error_codes.CONTROLLER_ID_NOT_REGISTERED


@pytest.mark.java
def test_kafkas_tools_talk_to_a_controller(java_tools: JavaTools, node: tuple[BrokerProcess, int]) -> None:
    def printed(tool: str, *arguments: str) -> str:
        server = ["--bootstrap-controller", f"{HOST}:{node[1]}"]
        first = tool in ("kafka-features", "kafka-metadata-quorum")
        finished = java_tools.run(tool, *(server if first else ()), *arguments, *(() if first else server))
        assert finished.exit_code == 0, finished.text
        return finished.out

    assert f"{HOST} {node[1]}" in printed("kafka-cluster", "list-endpoints")
    assert "controller" in printed("kafka-cluster", "list-endpoints")
    assert f"CONTROLLER://{HOST}:{node[1]}" in printed("kafka-metadata-quorum", "describe", "--status")
    assert "FinalizedVersionLevel: 4.4-IV2" in printed("kafka-features", "describe")
    upgraded = printed("kafka-features", "upgrade", "--feature", "metadata.version=33")
    assert upgraded == "metadata.version was upgraded to 33.\n"
    broker = ("--entity-type", "brokers", "--entity-name", "1")
    changed = printed("kafka-configs", "--alter", *broker, "--add-config", "log.cleaner.backoff.ms=20000")
    assert changed == "Completed updating config for broker 1.\n"
    assert printed("kafka-reassign-partitions", "--list") == "No partition reassignments found.\n"
