"""Real consoles at a cluster with everything in it: each page is asked by HTTP, and shows what is there.

``--kafdrop JAR`` and ``--redpanda-console PROGRAM`` name consoles that are built elsewhere (`make consoles`).
Apache Kafka has to pass too.
"""

import base64
import contextlib
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from kpybroker.client.client import Client, raise_for
from kpywire.messages.streams_group_heartbeat import Topology
from support.clusters import PROGRAMS, Cluster
from support.console_programs import ConsoleProgram, kafdrop, redpanda_console
from support.streams_requests import source_of, streaming
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
PATIENCE_S = 60.0
RECORDS = 60
CLASSIC, NEWER, SHARE, STREAMS = "classic-readers", "newer-readers", "sharing-readers", "streaming-readers"
COMPLAINTS = re.compile(r"\b(?:ERROR|WARN|Exception|Traceback)\b")
OTHER_GROUPS = "failed to describe consumer group"
"""Redpanda Console 3.2 describes groups of the classic protocol only, and logs this line about others."""
FORM = "application/x-www-form-urlencoded"
PAGE = "text/html"


@contextlib.contextmanager
def inhabited(servers: str) -> Iterator[None]:
    """The cluster has topics with records, a live group of each kind, an ACL and a user."""
    prepare(AdminClient({"bootstrap.servers": servers}))
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce("orders", b'{"item": %d}' % number, key=b"k%d" % number, headers=[("trace", b"t%d" % number)])
    assert producer.flush(PATIENCE_S) == 0
    common = {"bootstrap.servers": servers, "log_level": 0}
    earliest = {**common, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with contextlib.ExitStack() as open_:
        for group, protocol in ((CLASSIC, "classic"), (NEWER, "consumer")):
            consumer = Consumer({**earliest, "group.id": group, "group.protocol": protocol})
            open_.callback(consumer.close)
            consumer.subscribe(["orders"])
            for _ in range(RECORDS // 2):
                assert eventually(lambda consumer=consumer: consumer.poll(1.0), f"{group} reads").error() is None
            consumer.commit(asynchronous=False)
        sharer = ShareConsumer({**common, "group.id": SHARE})
        open_.callback(sharer.close)
        sharer.subscribe(["orders"])
        sharer.poll(1.0)
        join_streams(servers)
        yield


def prepare(admin: AdminClient) -> None:
    topics = [NewTopic("orders", 6, 3), NewTopic("compacted", 1, 3, config={"cleanup.policy": "compact"})]
    rule = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    alice = UserScramCredentialUpsertion("alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"secret")
    started = [
        *admin.create_topics(topics).values(),
        *admin.create_acls([rule]).values(),
        *admin.alter_user_scram_credentials([alice]).values(),
    ]
    for future in started:
        future.result(PATIENCE_S)


def join_streams(servers: str) -> None:
    """A member of a streams group joins, and sends no further heartbeat."""
    topology = Topology(epoch=1, subtopologies=[source_of("0", "orders")])
    request = streaming(STREAMS, "m" * 22, 0, topology=topology)
    with Client(servers) as client:
        answer = client.retrying(lambda: client.call_coordinator(STREAMS, request), PATIENCE_S)
    raise_for(answer.error_code, STREAMS, answer.error_message)


@pytest.fixture(scope="module")
def cluster(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip("needs a cluster of its own")
    directory = tmp_path_factory.mktemp("cluster")
    with (
        Cluster(PROGRAMS[target], directory, properties=AUTHORIZER) as cluster,
        inhabited(cluster.bootstrap_servers),
    ):
        yield cluster
        for node in cluster.nodes.values():
            assert not re.findall(r".*(?:\bERROR\b|Traceback).*", node.output.read_text(errors="replace"))


def chosen(request: pytest.FixtureRequest, option: str) -> Path:
    path: Path | None = request.config.getoption(option)
    if path is None:
        pytest.skip(f"needs {option} PATH, a console that is built elsewhere")
    return path.absolute()


@pytest.fixture(scope="module")
def built_kafdrop(request: pytest.FixtureRequest) -> Path:
    return chosen(request, "--kafdrop")


@pytest.fixture(scope="module")
def built_redpanda(request: pytest.FixtureRequest) -> Path:
    return chosen(request, "--redpanda-console")


@pytest.fixture(scope="module")
def drop(built_kafdrop: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProgram]:
    with kafdrop(built_kafdrop, cluster.bootstrap_servers, tmp_path_factory.mktemp("kafdrop")) as console:
        yield console


@pytest.fixture(scope="module")
def redpanda(
    built_redpanda: Path, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProgram]:
    with redpanda_console(built_redpanda, cluster.bootstrap_servers, tmp_path_factory.mktemp("redpanda")) as console:
        yield console


def test_kafdrop_shows_all_that_it_can_show(drop: ConsoleProgram) -> None:
    overview = drop.show("/")
    assert overview["summary"]["expectedBrokerIds"] == [1, 2, 3]
    assert overview["summary"]["underReplicatedCount"] == 0
    assert {"orders", "compacted"} <= {topic["name"] for topic in overview["topics"]}
    topic = drop.show("/topic/orders")
    assert sum(each["size"] for each in topic["partitions"]) >= RECORDS
    assert all(len(each["inSyncReplicas"]) == 3 for each in topic["partitions"])
    readers = drop.show("/topic/orders/consumers")
    assert {CLASSIC, NEWER} <= {each["groupId"] for each in readers}
    assert drop.show(f"/consumer/{NEWER}")["topics"][0]["topic"] == "orders"
    assert [rule["principal"] for rule in drop.show("/acl")] == ["User:alice"]
    found = drop.show("/topic/orders/messages", partition=0, offset=0, count=1, isAnyProto="false")
    assert found[0]["headers"] == {"trace": found[0]["key"].replace("k", "t")}
    pages = ("/", "/broker/1", "/topic/orders", "/topic/orders/allmessages", f"/consumer/{CLASSIC}", "/acl")
    for page in pages:
        assert drop.ask("GET", page, accept=PAGE).status == 200, page
    search = {
        "searchText": "item",
        "maximumCount": RECORDS,
        "partition": -1,
        "startTimestamp": "1970-01-01 00:00:00.000",
    }
    formats = {"format": "DEFAULT", "keyFormat": "DEFAULT"}
    found_page = drop.ask("GET", f"/topic/orders/search-messages?{urlencode({**search, **formats})}", accept=PAGE)
    assert found_page.status == 200
    assert "trace: t7" in found_page.text
    assert not complaints(drop.log)


def test_kafdrop_creates_and_deletes_a_topic(drop: ConsoleProgram) -> None:
    fields = urlencode({"name": "made", "partitionsNumber": 2, "replicationFactor": 3}).encode()
    assert drop.ask("POST", "/topic", fields, FORM).status == 200
    eventually(lambda: drop.get("/topic/made").status == 200, "the topic is there")
    assert len(drop.show("/topic/made")["partitions"]) == 2
    # The redirect says that it was deleted; a refusal is a page.
    assert drop.ask("POST", "/topic/made/delete", b"", FORM, PAGE).status == 302
    eventually(lambda: drop.get("/topic/made").status == 404, "the topic is gone")


def test_redpanda_console_shows_all_that_it_can_show(redpanda: ConsoleProgram) -> None:
    nodes = redpanda.show("/api/brokers")
    assert [each["brokerId"] for each in nodes] == [1, 2, 3]
    assert all(each["totalLogDirSizeBytes"] > 0 for each in nodes)
    assert redpanda.show("/api/brokers/1/config")["brokerConfigs"]
    assert redpanda.show("/api/cluster")["clusterInfo"]["controllerId"] in (1, 2, 3)
    assert {"orders", "compacted"} <= topics(redpanda)
    partitions = redpanda.show("/api/topics/orders/partitions")["partitions"]
    assert sum(each["waterMarkHigh"] for each in partitions) >= RECORDS
    assert all(len(each["partitionLogDirs"]) == 3 for each in partitions)
    assert redpanda.show("/api/topics/compacted/configuration")["topicDescription"]["configEntries"]
    assert CLASSIC in {each["groupId"] for each in redpanda.show("/api/topics/orders/consumers")["topicConsumers"]}
    groups = {each["groupId"]: each for each in redpanda.show("/api/consumer-groups")["consumerGroups"]}
    assert groups[CLASSIC]["state"] == "Stable"
    assert rules(redpanda)[0]["acls"][0]["principal"] == "User:alice"
    for page in ("quotas", "operations/topic-details", "operations/reassign-partitions", "topics-configs"):
        redpanda.show(f"/api/{page}")
    supported = redpanda.show("/api/console/endpoints")["endpointCompatibility"]["endpoints"]
    missing = {each["endpoint"] for each in supported if not each["isSupported"]}
    assert all("redpanda.api." in each for each in missing), "only what Redpanda itself has is missing"
    assert not [line for line in complaints(redpanda.log) if OTHER_GROUPS not in line]


def test_redpanda_console_lists_records(redpanda: ConsoleProgram) -> None:
    wanted = {"topic": "orders", "startOffset": -2, "partitionId": -1, "maxResults": RECORDS}
    body = json.dumps(wanted).encode()
    service = "/redpanda.api.console.v1alpha1.ConsoleService/ListMessages"
    answer = redpanda.ask("POST", service, struct.pack(">BI", 0, len(body)) + body, "application/connect+json")
    keys = [
        base64.b64decode(each["data"]["key"]["normalizedPayload"]) for each in envelopes(answer.body) if "data" in each
    ]
    assert {b"k%d" % number for number in range(RECORDS)} <= set(keys)


def topics(redpanda: ConsoleProgram) -> set[str]:
    return {each["topicName"] for each in redpanda.show("/api/topics")["topics"]}


def rules(redpanda: ConsoleProgram) -> list[dict[str, Any]]:
    """The resources that have ACLs, with these."""
    every = dict.fromkeys(("resourceType", "resourcePatternTypeFilter", "operation", "permissionType"), "Any")
    found: list[dict[str, Any]] = redpanda.show("/api/acls", **every)["aclResources"]
    return found


def envelopes(stream: bytes) -> Iterator[dict[str, Any]]:
    """The messages of a stream of the Connect protocol."""
    while stream:
        _flags, size = struct.unpack_from(">BI", stream)
        yield json.loads(stream[5 : 5 + size])
        stream = stream[5 + size :]


def test_redpanda_console_changes_the_cluster(redpanda: ConsoleProgram) -> None:
    topic = {"topicName": "built", "partitionCount": 2, "replicationFactor": 3, "configs": []}
    assert redpanda.ask("POST", "/api/topics", topic).json["partitionCount"] == 2
    change = {"configs": [{"key": "retention.ms", "op": "SET", "value": "200000"}]}
    assert redpanda.ask("PATCH", "/api/topics/built/configuration", change).status == 200
    record = {"key": "YQ==", "value": "Yg==", "partitionId": 0, "headers": []}
    sent = {"topicNames": ["built"], "useTransactions": True, "compressionType": 4, "records": [record]}
    assert "error" not in redpanda.ask("POST", "/api/topics-records", sent).json["records"][0]
    deleted = {"partitions": [{"partitionId": 0, "offset": -1}]}
    answer = redpanda.ask("DELETE", "/api/topics/built/records", deleted).json
    assert answer["partitions"][0]["lowWaterMark"] > 0
    moved = {"topics": [{"topicName": "built", "partitions": [{"partitionId": 0, "replicas": [1, 2]}]}]}
    answer = redpanda.ask("PATCH", "/api/operations/reassign-partitions", moved).json
    assert answer["reassignPartitionsResponses"][0]["partitions"][0]["errorCode"] == ""
    rule = {
        "resourceType": "Topic",
        "resourceName": "built",
        "resourcePatternType": "Literal",
        "principal": "User:bob",
        "host": "*",
        "operation": "Read",
        "permissionType": "Allow",
    }
    assert redpanda.ask("POST", "/api/acls", rule).status == 200
    assert redpanda.ask("DELETE", "/api/acls", rule).status == 200
    assert [each["resourceName"] for each in rules(redpanda)] == ["orders"]
    assert redpanda.ask("DELETE", "/api/topics/built").status == 200
    eventually(lambda: "built" not in topics(redpanda), "the topic is gone")


def complaints(log: str) -> list[str]:
    """Lines of a console about trouble, but for those it always writes."""
    return [line for line in log.splitlines() if COMPLAINTS.search(line) and "SpringDoc" not in line]
