"""The commands that take the place of Kafka's tools for administrators, against the target and Apache Kafka alike:
transactions, producers, elections, voters, versions. Where a Java tool does the same, both have to find the same.
"""

import json
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kpywire import error_codes
from kpywire.record import Record, build_batch
from support.java_tools import JavaTools
from support.raw_client import connect
from support.raw_requests import now_ms
from support.raw_transactions import Transactional, find_coordinator, produce_records
from support.targets import EXTERNAL, IN_ZOOKEEPER_MODE, TARGETS
from support.waiting import eventually
from tools.test_command_line import Failed
from tools.test_command_line_operations import APACHE_KAFKA, Cluster

HOUR_MS = 3_600_000
UNCHECKED = {"transaction.partition.verification.enable": "false"}
"""A broker that lets a producer write without its coordinator's knowledge, as those before Kafka 3.6 did."""
PRODUCER = """
import sys, time
from confluent_kafka import Producer
server, topic, name = sys.argv[1:]
producer = Producer({"bootstrap.servers": server, "transactional.id": name, "log_level": 0})
producer.init_transactions(30)
producer.begin_transaction()
producer.produce(topic, "open", partition=0)
producer.flush(30)
print("open", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module", params=["target", pytest.param(APACHE_KAFKA, marks=pytest.mark.java)])
def cluster(request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The broker under test, and Apache Kafka if that is another one."""
    name = target if request.param == "target" else APACHE_KAFKA
    if target == EXTERNAL:
        pytest.skip("configures the broker, and --bootstrap-server names one of somebody else")
    if request.param != "target" and target == APACHE_KAFKA:
        pytest.skip("is the target already")
    with TARGETS[name](UNCHECKED, directory=tmp_path_factory.mktemp(name)) as broker:
        yield Cluster(broker.bootstrap_servers, None)


def hang(cluster: Cluster, topic: str, *, age_ms: int = HOUR_MS) -> Transactional:
    """A producer whose transaction in partition 0 is open, and which its coordinator has never heard of."""
    with connect(cluster.server) as raw:
        producer = Transactional(raw, f"hanging-{secrets.token_hex(4)}")
        find_coordinator(raw, producer.id)
        producer.init()
        batch = build_batch(
            [Record(timestamp=now_ms() - age_ms, value=b"stuck")],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        assert produce_records(raw, topic, batch, producer.id).error_code == error_codes.NONE
    return producer


def committed(cluster: Cluster, topic: str) -> str:
    return cluster.run("consume", topic, "-e", "--read-committed")


def test_a_hanging_transaction_is_found_and_aborted(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    producer = hang(cluster, topic)
    cluster.run("produce", topic, "-p", "0", stdin="behind\n")
    assert committed(cluster, topic) == ""

    found = json.loads(hanging(cluster, topic, "--json"))
    assert [(each["topic"], each["partition"], each["start_offset"]) for each in found] == [(topic, 0, 0)]
    assert found[0]["producer_id"] == producer.producer_id
    assert found[0]["last_write_ms"] <= now_ms() - HOUR_MS
    table = hanging(cluster, topic)
    assert "WHY IT HANGS" in table
    advice = re.search(r"kpybroker (transactions abort --topic \S+ --partition 0 --start-offset 0)", table)
    assert advice is not None, table

    assert f"producer id {producer.producer_id} in {topic}-0" in cluster.run(*advice[1].split())
    assert committed(cluster, topic) == "behind\n"
    assert cluster.found("transactions", "find-hanging", topic) == []
    with pytest.raises(Failed, match="INVALID_TXN_STATE"):
        cluster.run(*advice[1].split())


def hanging(cluster: Cluster, *words: str) -> str:
    """The output of find-hanging, which has to find something."""
    with pytest.raises(Failed) as found:
        cluster.run("transactions", "find-hanging", *words)
    assert found.value.code == 4, found.value.printed
    return found.value.printed


def test_a_hanging_transaction_is_aborted_by_its_producer_too(cluster: Cluster) -> None:
    topic = cluster.topic()
    producer = hang(cluster, topic)
    assert hanging(cluster, "--topic", topic, "--max-transaction-timeout", "30")
    where = ("--topic", topic, "--partition", "0", "--producer-id", str(producer.producer_id))
    cluster.run("transactions", "abort", *where, "--producer-epoch", str(producer.epoch), "--coordinator-epoch", "0")
    assert cluster.found("transactions", "find-hanging") == []


def test_only_old_transactions_hang(cluster: Cluster) -> None:
    topic = cluster.topic()
    hang(cluster, topic, age_ms=0)
    assert cluster.found("transactions", "find-hanging", topic) == []
    assert hanging(cluster, topic, "--older-than", "0s")
    cluster.run("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0")


def test_the_transaction_of_a_killed_producer_is_shown_and_aborted_and_does_not_hang(cluster: Cluster) -> None:
    topic, name = cluster.topic(), f"killed-{secrets.token_hex(4)}"
    words = [sys.executable, "-c", PRODUCER, cluster.server, topic, name]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGKILL)
    (described,) = cluster.found("transactions", "describe", name)
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert 0 <= described["open_ms"] < HOUR_MS
    (broker,) = cluster.found("cluster", "brokers")
    listed = {"transactional_id": name, "coordinator": broker["id"], "state": "Ongoing"}
    (entry,) = cluster.found(
        "transactions", "list", "--state", "Ongoing", "--producer-id", str(described["producer_id"])
    )
    assert listed.items() <= entry.items()
    assert name not in cluster.run("transactions", "list", "--state", "CompleteCommit")
    (producer,) = cluster.found("producers", topic)
    assert (producer["producer_id"], producer["open_since_offset"]) == (described["producer_id"], 0)
    assert cluster.found("transactions", "find-hanging", topic, "--older-than", "0s") == []

    cluster.run("transactions", "abort", name)
    eventually(lambda: cluster.found("producers", topic)[0]["open_since_offset"] is None, "the marker")
    eventually(
        lambda: cluster.found("transactions", "describe", name)[0]["open_ms"] is None, "the end of the transaction"
    )
    assert committed(cluster, topic) == ""
    with pytest.raises(Failed, match="INVALID_TXN_STATE"):
        cluster.run("transactions", "abort", name)


def test_transactions_are_listed_by_pattern_and_age(cluster: Cluster, target: str) -> None:
    names = [f"{kind}-{secrets.token_hex(4)}" for kind in ("app", "other")]
    with connect(cluster.server) as raw:
        for name in names:
            find_coordinator(raw, name)
            Transactional(raw, name).init()
    pattern = ("--transactional-id-pattern", f"app-.*|{names[1][:-1]}")
    if target in IN_ZOOKEEPER_MODE:
        pytest.skip("Kafka 3.9 has no filters of ids")
    assert [each["transactional_id"] for each in cluster.found("transactions", "list", *pattern)] == names[:1]
    assert names[0] not in cluster.run("transactions", "list", "--older-than", "1h")
    with pytest.raises(Failed, match="did you mean Ongoing"):
        cluster.run("transactions", "list", "--state", "Ongoin")
    with pytest.raises(Failed, match=rf"does not exist; did you mean {names[0]}.*TRANSACTIONAL_ID_NOT_FOUND"):
        cluster.run("transactions", "describe", names[0][:-1])


@pytest.mark.java
def test_hanging_transactions_are_those_that_kafkas_tool_finds(cluster: Cluster, java_tools: JavaTools) -> None:
    topic = cluster.topic()
    hang(cluster, topic)
    servers = ("--bootstrap-server", cluster.server)
    theirs = java_tools.run("kafka-transactions", *servers, "find-hanging", "--topic", topic)
    ours = json.loads(hanging(cluster, topic, "--json"))
    names = (
        "topic",
        "partition",
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "start_offset",
        "last_write_ms",
    )
    found = [["-1" if each[name] is None else str(each[name]) for name in names] for each in ours]
    assert [line.split()[:7] for line in theirs.out.splitlines()[1:]] == found, theirs.text

    described = java_tools.run(
        "kafka-transactions", *servers, "describe-producers", "--topic", topic, "--partition", "0"
    )
    (producer,) = cluster.found("producers", topic)
    keys = ("producer_id", "epoch", "coordinator_epoch", "last_sequence", "last_write_ms", "open_since_offset")
    texts = {"coordinator_epoch": "-1", "open_since_offset": "None"}
    assert [line.split() for line in described.out.splitlines()[1:]] == [
        [texts.get(key, "-") if producer[key] is None else str(producer[key]) for key in keys]
    ], described.text
    cluster.run("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0")
    assert "stuck" not in committed(cluster, topic)


@pytest.mark.java
def test_versions_of_apis_are_those_that_kafkas_tool_lists(cluster: Cluster, java_tools: JavaTools) -> None:
    theirs = java_tools.run("kafka-broker-api-versions", "--bootstrap-server", cluster.server).out
    listed = {
        int(key): (int(first), int(last or first))
        for key, first, last in re.findall(r"\w+\((\d+)\): (\d+)(?: to (\d+))?(?: \[|,|$)", theirs)
    }
    ours = cluster.found("cluster", "api-versions")
    assert {each["key"]: (each["first"], each["last"]) for each in ours} == listed
    assert len({each["name"] for each in ours}) == len(ours)


def test_leaders_are_elected_where_it_is_needed(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    assert cluster.run("cluster", "elect", topic) == f"{topic}-0 needs no election\n{topic}-1 needs no election\n"
    assert (
        cluster.run("cluster", "elect", f"{topic}:1", "--election-type", "unclean") == f"{topic}-1 needs no election\n"
    )
    assert cluster.run("cluster", "elect", "--all") == "No partition needs an election.\n"
    with pytest.raises(Failed, match=rf"topic {topic}x does not exist; did you mean {topic}"):
        cluster.run("cluster", "elect", f"{topic}x")


def test_partitions_to_elect_leaders_of_can_stand_in_a_file(cluster: Cluster, tmp_path: Any) -> None:
    topic = cluster.topic()
    file = tmp_path / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 7}]}))
    with pytest.raises(Failed, match=rf"{topic}-0 needs no election\nError: {topic}-7: .*UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.run("cluster", "elect", "--path-to-json-file", str(file))
    file.write_text("[]")
    with pytest.raises(Failed, match=r"partitions\.json is not") as failed:
        cluster.run("cluster", "elect", "--path-to-json-file", str(file))
    assert failed.value.code == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("cluster", "unregister", "77"), "BROKER_ID_NOT_REGISTERED"),
        (("cluster", "unregister", "77", "--controller"), "CONTROLLER_ID_NOT_REGISTERED"),
        (("cluster", "voters", "remove", "77"), "VOTER_NOT_FOUND"),
        (("cluster", "api-versions", "--broker", "77"), "BROKER_NOT_AVAILABLE"),
        (("transactions", "describe", "no-such-id"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("transactions", "abort", "no-such-id"), "TRANSACTIONAL_ID_NOT_FOUND"),
        (("producers", "no-such-topic"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("replicas", "verify", "no-such-topic"), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_an_unknown_thing_is_one_line(
    cluster: Cluster, words: tuple[str, ...], error: str, in_zookeeper_mode: bool
) -> None:
    if in_zookeeper_mode and words[0] == "cluster":
        pytest.skip("has no quorum of controllers")
    with pytest.raises(Failed, match=error) as failed:
        cluster.run(*words)
    assert failed.value.code == 1
    assert len(failed.value.printed.splitlines()) == 1


def test_the_only_voter_is_shown_and_stays(cluster: Cluster, in_zookeeper_mode: bool) -> None:
    if in_zookeeper_mode:
        pytest.skip("has no quorum of controllers")
    (voter,) = cluster.found("cluster", "voters", "list")
    (controller,) = cluster.found("cluster", "controllers")
    assert voter == controller
    assert (voter["role"], len(voter["addresses"]) < 2) == ("leader", True)
    quorum = cluster.found("cluster", "quorum")["replicas"][0]
    assert (voter["id"], voter["directory_id"]) == (quorum["id"], quorum["directory_id"])
    removing = ("cluster", "voters", "remove", str(voter["id"]))
    assert voter["directory_id"] in cluster.run(*removing, "--dry-run")
    with pytest.raises(Failed, match=r"VOTER_NOT_FOUND|UNSUPPORTED_VERSION"):
        cluster.run(*removing)
    address = next(iter(voter["addresses"]), "CONTROLLER://127.0.0.1:1")
    listener = ("--listener", address, "--directory-id", voter["directory_id"])
    with pytest.raises(Failed, match=r"DUPLICATE_VOTER|UNSUPPORTED_VERSION"):
        cluster.run("cluster", "voters", "add", "--id", str(voter["id"]), *listener)


def test_replicas_without_others_are_read_and_not_compared(cluster: Cluster) -> None:
    topic = cluster.topic(2, records=3)
    found = cluster.found("replicas", "verify", topic)
    assert (found["partitions"], found["compared"], found["findings"], found["away"]) == (2, 0, [], [])


def test_no_partition_moves_in_a_cluster_at_rest(cluster: Cluster) -> None:
    assert cluster.found("topics", "reassignments") == []
    assert cluster.found("topics", "reassignments", cluster.topic(), "--cancel") == []
