"""ACLs on a node with an authorizer: the three requests on a broker's and a controller's listener, and kafka-acls."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conftest import started
from kpybroker.cli import main
from kpywire import error_codes
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from oracle import ApacheKafka, BrokerProcess, free_port
from oracle.process import HOST
from support.admin_requests import acl, acl_filter
from support.clusters import PROGRAMS, Cluster
from support.java_tools import JavaTools
from support.raw_client import RawClient, connect
from support.targets import AUTHORIZERS, IN_ZOOKEEPER_MODE, TARGETS
from support.waiting import becomes
from support.zookeeper_clusters import ON_ZOOKEEPER, ZooKeeperCluster

SUPER_USERS = {"super.users": "User:ANONYMOUS;User:CN=broker,O=us"}
WITHOUT_CODE = 99
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def authorizing(target: str) -> dict[str, str]:
    """The properties of a node with an authorizer."""
    return {"authorizer.class.name": AUTHORIZERS[target in IN_ZOOKEEPER_MODE], **SUPER_USERS}


@pytest.fixture(scope="module")
def node(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, int]]:
    """A node with an authorizer, to which everybody is a super user, and the port of its controller's listener. A
    broker in ZooKeeper mode has none."""
    broker = TARGETS[startable_target](authorizing(startable_target), directory=tmp_path_factory.mktemp("acls"))
    if startable_target in IN_ZOOKEEPER_MODE:
        port = 0
    elif isinstance(broker, ApacheKafka):
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


@pytest.fixture(params=["broker", "controller"])
def client(request: pytest.FixtureRequest, node: tuple[BrokerProcess, int]) -> Iterator[RawClient]:
    """A connection to the broker's listener, or the controller's. No ACLs are there at the begin."""
    if request.param == "controller" and not node[1]:
        pytest.skip("a broker in ZooKeeper mode has no listener of a KRaft controller")
    with RawClient(node[1]) if request.param == "controller" else connect(node[0].bootstrap_servers) as made:
        deleted(made, acl_filter())
        becomes(lambda: described(made), [])
        yield made


def created(client: RawClient, *wanted: AclCreation, version: int = 3) -> list[tuple[int, str | None]]:
    answer = client.call(CreateAclsRequest(creations=list(wanted)), version)
    return [(each.error_code, each.error_message) for each in answer.results]


def plain(acl: Any) -> tuple[Any, ...]:
    pattern = (acl.resource_type, acl.resource_name, acl.pattern_type)
    return (*pattern, acl.principal, acl.host, acl.operation, acl.permission_type)


def deleted(client: RawClient, *filters: dict[str, Any], version: int = 3) -> list[tuple[int, str | None, list[Any]]]:
    answer = client.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**each) for each in filters]), version)
    found = []
    for each in answer.filter_results:
        assert {(one.error_code, one.error_message) for one in each.matching_acls} <= {(0, None), (0, "")}
        found.append((each.error_code, each.error_message, sorted(map(plain, each.matching_acls))))
    return found


def described(client: RawClient, version: int = 3, **fields: Any) -> list[tuple[Any, ...]]:
    answer = client.call(DescribeAclsRequest(**acl_filter(**fields)), version)
    assert (answer.error_code, answer.error_message) == (error_codes.NONE, "")
    patterns = [(each.resource_type, each.resource_name, each.pattern_type) for each in answer.resources]
    assert len(patterns) == len(set(patterns))
    return sorted(
        (*pattern, one.principal, one.host, one.operation, one.permission_type)
        for pattern, each in zip(patterns, answer.resources, strict=True)
        for one in each.acls
    )


def whole(name: str, **fields: Any) -> tuple[Any, ...]:
    made = acl(name, **fields)
    pattern = (made.resource_type, made.resource_name, made.resource_pattern_type)
    return (*pattern, made.principal, made.host, made.operation, made.permission_type)


OK = (0, "")


@VERSIONS
def test_acls_come_are_shown_and_go(client: RawClient, version: int, in_zookeeper_mode: bool) -> None:
    wanted = [acl("t"), acl("t", principal="User:CN=a,O=b"), acl("p", resource_pattern_type=4), acl("*", operation=3)]
    assert created(client, *wanted, version=version) == [OK] * 4
    every = sorted(
        [
            whole("t"),
            whole("t", principal="User:CN=a,O=b"),
            whole("p", resource_pattern_type=4),
            whole("*", operation=3),
        ]
    )
    becomes(lambda: described(client, version), every)
    assert created(client, acl("t"), acl("t"), version=version) == [OK] * 2, "it is there already"
    assert described(client, version) == every
    covering = described(client, version, resource_type_filter=2, resource_name_filter="pq", pattern_type_filter=2)
    assert covering == [whole("*", operation=3), whole("p", resource_pattern_type=4)]
    assert described(client, version, resource_name_filter="t", principal_filter="User:somebody") == [whole("t")]
    assert described(client, version, host_filter="10.0.0.7") == []
    assert described(client, version, operation=WITHOUT_CODE) == []
    gone = deleted(
        client,
        acl_filter(resource_name_filter="t"),
        acl_filter(operation=2),
        acl_filter(host_filter=""),
        version=version,
    )
    of_t = [whole("t"), whole("t", principal="User:CN=a,O=b")]
    again: list[Any] = [] if in_zookeeper_mode else of_t  # an AclAuthorizer reports an ACL with its first filter
    assert gone == [
        (0, None, sorted(of_t)),
        (0, None, sorted([*again, whole("p", resource_pattern_type=4)])),
        (0, None, []),
    ]
    becomes(lambda: described(client, version), [whole("*", operation=3)])


def test_each_acl_is_refused_or_created_by_itself(client: RawClient, in_zookeeper_mode: bool) -> None:
    if in_zookeeper_mode:
        pytest.skip("an AclAuthorizer writes all ACLs of a resource at once: the next test is about it")
    invalid = error_codes.INVALID_REQUEST
    answers = created(
        client,
        acl(""),
        acl("cluster", resource_type=4),
        acl("", resource_type=4),
        acl("t", principal="nobody"),
        acl("t", resource_type=WITHOUT_CODE),
        acl("t", resource_pattern_type=WITHOUT_CODE),
        acl("t", operation=WITHOUT_CODE),
        acl("t", permission_type=WITHOUT_CODE),
        acl("t", host="10.0.0.0/8"),
        acl("t", host="2001:db8::/32"),
        acl("t", host="some/thing"),
        acl("t", host="10.0.0.0/40"),
        acl("t", host="::1/129"),
        acl("t", host=""),
        acl("kafka-cluster", resource_type=4, operation=4),
    )
    assert answers == [
        (invalid, "Invalid empty resource name"),
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (
            invalid,
            (
                "Could not parse principal from `nobody` (no colon is present separating the principal type from the "
                "principal name)"
            ),
        ),
        (invalid, "Invalid resourceType UNKNOWN"),
        (invalid, "Invalid patternType UNKNOWN"),
        (invalid, "Invalid operation UNKNOWN"),
        (invalid, "Invalid permissionType UNKNOWN"),
        OK,
        OK,
        (invalid, "Invalid CIDR notation 'some/thing': Could not parse [some/thing]"),
        (invalid, "Invalid CIDR notation '10.0.0.0/40': Value [40] not in range [0,32]"),
        (
            invalid,
            "Invalid CIDR notation '::1/129': Could not parse [::1/129] - prefix length must be between 0 and 128",
        ),
        (invalid, "Host pattern cannot be null or empty"),
        OK,
    ]
    becomes(lambda: len(described(client)), 3)
    assert deleted(client, acl_filter(operation=WITHOUT_CODE), acl_filter(pattern_type_filter=WITHOUT_CODE)) == [
        (invalid, "Unknown entryFilter.", []),
        (invalid, "Unknown patternFilter.", []),
    ]


def test_the_acls_of_a_resource_are_refused_or_created_together(client: RawClient, in_zookeeper_mode: bool) -> None:
    if not in_zookeeper_mode:
        pytest.skip("only where ACLs are in ZooKeeper, the ACLs of a resource in one znode")
    invalid, unknown = error_codes.INVALID_REQUEST, error_codes.UNKNOWN_SERVER_ERROR
    answers = created(
        client,
        acl(""),
        acl("cluster", resource_type=4),
        acl("t", principal="nobody"),
        acl("t"),
        acl("u", resource_type=WITHOUT_CODE),
        acl("u", resource_pattern_type=WITHOUT_CODE),
        acl("u", operation=WITHOUT_CODE),
        acl("u", permission_type=WITHOUT_CODE),
        acl("u", host="10.0.0.0/8"),
        acl("u", host=""),
        acl("kafka-cluster", resource_type=4, operation=4),
    )
    failed = (invalid, "Failed to create ACL")
    assert answers == [
        (invalid, "Invalid empty resource name"),
        (invalid, "The only valid name for the CLUSTER resource is kafka-cluster"),
        (unknown, None),
        (unknown, None),
        *[failed] * 4,
        OK,
        OK,
        OK,
    ]
    becomes(lambda: len(described(client)), 3)


@pytest.mark.parametrize(
    "fields",
    [{"resource_type": 1}, {"resource_pattern_type": 1}, {"resource_pattern_type": 2}, {"operation": 1},
     {"permission_type": 1}],
)  # fmt: skip
def test_values_only_allowed_in_filters_fail_the_whole_request(client: RawClient, fields: dict[str, int]) -> None:
    assert created(client, acl("t"), acl("u", **fields)) == [(error_codes.UNKNOWN_SERVER_ERROR, None)] * 2
    assert described(client) == []


def test_more_than_ten_thousand_at_once_are_refused(client: RawClient, in_zookeeper_mode: bool) -> None:
    if in_zookeeper_mode:
        pytest.skip("the limit is that of a KRaft controller's batch of records; an AclAuthorizer has none")
    answers = created(client, *(acl(f"t{number}") for number in range(10_001)))
    refused = (error_codes.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
    assert answers == [refused] * 10_001
    assert described(client) == []


@pytest.mark.java
def test_kafka_acls_adds_lists_and_removes(node: tuple[BrokerProcess, int], tmp_path: Path) -> None:
    with JavaTools(tmp_path / "tools.log") as tools, connect(node[0].bootstrap_servers) as client:
        deleted(client, acl_filter())

        def run(*words: str) -> str:
            answer = tools.run("kafka-acls", "--bootstrap-server", node[0].bootstrap_servers, *words)
            assert answer.exit_code == 0, answer.text
            return answer.out

        run("--add", "--allow-principal", "User:alice", "--producer", "--topic", "t", "--transactional-id", "x")
        run("--add", "--allow-principal", "User:alice", "--consumer", "--topic", "t", "--group", "g")
        run("--add", "--deny-principal", "User:CN=b,O=c", "--deny-host", "10.0.0.7", "--operation", "All",
            "--topic", "p", "--resource-pattern-type", "prefixed")  # fmt: skip
        becomes(lambda: len(described(client)), 8)
        listed = run("--list")
        assert "(principal=User:CN=b,O=c, host=10.0.0.7, operation=ALL, permissionType=DENY)" in listed
        if node[1]:
            by_controller = tools.run("kafka-acls", "--bootstrap-controller", f"{HOST}:{node[1]}", "--list")
            assert sorted(by_controller.out.split()) == sorted(listed.split())
        assert run("--list", "--principal", "User:alice").count("principal=User:alice") == 7
        run("--remove", "--force", "--topic", "t")
        becomes(lambda: len(described(client)), 4)


def test_kpybroker_acls_adds_lists_explains_and_removes(
    node: tuple[BrokerProcess, int], in_zookeeper_mode: bool
) -> None:
    def run(*words: str, code: int = 0) -> str:
        answer = CliRunner().invoke(main, ["acls", *words, "-b", node[0].bootstrap_servers])
        assert answer.exit_code == code, answer.output
        return answer.output

    def listed(*words: str) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads(run("list", "--json", *words))
        return found

    with connect(node[0].bootstrap_servers) as client:
        deleted(client, acl_filter())
        becomes(lambda: described(client), [])
    assert "No ACLs." in run("list")
    alice = ("--allow-principal", "User:alice")
    assert run("add", *alice, "--producer", "-t", "orders", "--transactional-id", "x") == "Added 5 ACLs\n"
    assert run("add", *alice, "--consumer", "-t", "orders", "-g", "g", "--idempotent") == "Added 4 ACLs\n"
    run("add", *alice, "-o", "read", "-t", "or", "--resource-pattern-type", "prefixed", "--allow-host", "::1")
    run("add", "--deny-principal", "User:CN=b,O=c", "-o", "describe-configs", "-t", "*", "--deny-host", "10.0.0.7")
    becomes(lambda: len(listed()), 10)
    assert len(listed("--principal", "User:alice")) == 9
    assert [each["operation"] for each in listed("-t", "ordinary", "--resource-pattern-type", "match")] == [
        "DescribeConfigs",
        "Read",
    ]
    assert listed("--cluster") == [
        {
            "resource_type": "Cluster",
            "resource_name": "kafka-cluster",
            "pattern_type": "literal",
            "principal": "User:alice",
            "host": "*",
            "operation": "IdempotentWrite",
            "permission_type": "allow",
        }
    ]
    table = run("list", "-t", "or").splitlines()
    assert table[1].split() == ["Topic:or", "prefixed", "User:alice", "0:0:0:0:0:0:0:1", "Read", "allow"]
    why = "allow Describe on Topic:orders (literal) for User:alice from *\n"
    assert run("explain", "User:alice", "describe", "topic:orders") == f"User:alice may Describe Topic:orders: {why}"
    notified = run("explain", "User:CN=b,O=c", "DescribeConfigs", "topic:t", "--host", "10.0.0.7")
    why = "deny DescribeConfigs on Topic:* (literal) for User:CN=b,O=c from 10"
    assert f"may not DescribeConfigs Topic:t: {why}" in notified
    assert "none of the ACLs that cover it allows this" in run("explain", "User:bob", "read", "group:g")
    assert "no ACL covers it" in run("explain", "User:bob", "read", "group:h")
    explained = json.loads(run("explain", "User:alice", "read", "topic:ordinary", "--host", "::1", "--json"))
    assert (explained["allowed"], explained["acl"]["resource_name"]) == (True, "or")
    assert "'10.0.0.0/40' is no network: Value [40]" in run(
        "add", *alice, "-t", "t", "--allow-host", "10.0.0.0/40", code=2
    )
    assert "'here' is no address; ACLs name" in run("add", *alice, "-t", "t", "--allow-host", "here", code=2)
    assert "Write has no meaning for Group:g; use one of Read" in run("add", *alice, "-g", "g", "-o", "write", code=2)
    assert "write User:alice" in run("list", "--principal", "alice", code=2)
    with connect(node[0].bootstrap_servers) as client:
        assert created(client, acl("idle", host="10.0.0.0/8"), acl("idle", host="0:0:0:0:0:0:0:1")) == [OK] * 2
    becomes(lambda: len(listed()), 12)
    notified = run("explain", "User:somebody", "read", "topic:idle", "--host", "10.1.2.3")
    assert ("may not" in notified) is in_zookeeper_mode
    somebody = ("--allow-principal", "User:somebody", "-t", "idle")
    removed = json.loads(run("remove", *somebody, "--allow-host", "10.0.0.0/8", "--allow-host", "::1", "--json"))
    assert [each["host"] for each in removed] == ["0:0:0:0:0:0:0:1", "10.0.0.0/8"]
    becomes(lambda: len(listed()), 10)
    removed = json.loads(run("remove", *alice, "--producer", "-t", "orders", "--json"))
    assert sorted(each["operation"] for each in removed) == ["Create", "Describe", "Write"]
    assert run("remove", "-t", "ordinary", "--resource-pattern-type", "match").count("\n") == 3
    becomes(lambda: len(listed()), 5)
    assert "No such ACLs." in run("remove", "-t", "nothing")


def cluster_of(target: str, directory: Path) -> Cluster | ZooKeeperCluster:
    """Three nodes with an authorizer."""
    properties = authorizing(target)
    if target in IN_ZOOKEEPER_MODE:
        return ZooKeeperCluster(directory, ON_ZOOKEEPER[target.removesuffix("-zookeeper")], properties)
    return Cluster(PROGRAMS[target], directory, properties=properties)


def ports_of(cluster: Cluster | ZooKeeperCluster) -> list[int]:
    """The ports of all nodes, those of their controllers' listeners too."""
    if isinstance(cluster, Cluster):
        return [port for place in cluster.places.values() for port in (place.port, place.controller_port)]
    return [node.port for node in cluster.nodes.values()]


def test_every_node_of_a_cluster_learns_of_acls(startable_target: str, tmp_path: Path) -> None:
    if startable_target not in (*PROGRAMS, *IN_ZOOKEEPER_MODE):
        pytest.skip("a cluster of nodes on this machine")
    with cluster_of(startable_target, tmp_path) as cluster:
        expected = []
        for node_id, node in cluster.nodes.items():
            with connect(node.bootstrap_servers) as client:
                assert created(client, acl(f"t{node_id}")) == [OK]
            expected.append(whole(f"t{node_id}"))
        ports = ports_of(cluster)
        for port in ports:
            with RawClient(port) as client:
                becomes(lambda client=client: described(client), expected)  # type: ignore[misc]
        with connect(cluster.nodes[3].bootstrap_servers) as client:
            assert deleted(client, acl_filter(resource_name_filter="t1")) == [(0, None, [whole("t1")])]
        for port in ports:
            with RawClient(port) as client:
                becomes(lambda client=client: described(client), expected[1:])  # type: ignore[misc]
