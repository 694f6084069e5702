"""The commands that look after a cluster, against the target and Apache Kafka alike: groups, offsets, configs, cluster,
consume as a member, doctor. Their words are ours, so what they print is held against facts, not against Kafka's tools.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from kpybroker.cli import main
from kpywire.messages.metadata import MetadataRequest
from oracle import free_port
from support.group_requests import beating, coordinator_ready
from support.raw_client import RawClient, connect
from support.targets import TARGETS, KpyBroker
from support.waiting import eventually
from tools.test_command_line import PROGRAM, Failed

APACHE_KAFKA = "apache-kafka"


def as_in_a_terminal() -> None:
    """Scripts start what runs in the background with Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Cluster:
    """A broker, and our program to run against it."""

    def __init__(self, server: str, data: Path | None) -> None:
        self.server = server
        self.data = data

    def run(self, *words: str, stdin: str = "", code: int = 0) -> str:
        """Run a command to its end, with this exit code; its stdout."""
        finished = CliRunner().invoke(main, [*words, "--bootstrap-server", self.server], input=stdin)
        if finished.exit_code != code:
            raise Failed(finished.exit_code, finished.output) from finished.exception
        return finished.stdout if code == 0 else finished.output

    def found(self, *words: str, stdin: str = "") -> Any:
        """The output of a command as JSON."""
        return json.loads(self.run(*words, "--json", stdin=stdin))

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [PROGRAM, *words, "--bootstrap-server", self.server]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        return subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=buffered,
            preexec_fn=as_in_a_terminal,
        )

    def topic(self, partitions: int = 1, records: int = 0) -> str:
        """A topic with records "0", "1"... in partition 0."""
        name = f"operations-{secrets.token_hex(4)}"
        self.run("topics", "create", name, "-p", str(partitions))
        if records:
            self.run("produce", name, "-p", "0", stdin="".join(f"{number}\n" for number in range(records)))
        return name

    def lags(self, group: str) -> dict[int, int | None]:
        """The lag of each partition of a group that reads one topic."""
        (described,) = self.found("groups", "describe", group)
        return {each["partition"]: each["lag"] for each in described["partitions"]}


@pytest.fixture(scope="module", params=["target", pytest.param(APACHE_KAFKA, marks=pytest.mark.java)])
def cluster(
    request: pytest.FixtureRequest, target: str, bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The broker under test, and Apache Kafka if that is another one."""
    if request.param == "target":
        yield Cluster(bootstrap_servers, None)
        return
    if target == APACHE_KAFKA:
        pytest.skip("is the target already")
    directory = tmp_path_factory.mktemp("apache-kafka")
    with TARGETS[APACHE_KAFKA](directory=directory) as broker:
        yield Cluster(broker.bootstrap_servers, directory / "data")


@pytest.fixture
def group() -> str:
    return f"group-{secrets.token_hex(4)}"


def test_a_member_reads_commits_and_goes_on_where_it_was(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(2, records=10)
    assert cluster.run("consume", topic, "-G", group, "-c", "4") == "0\n1\n2\n3\n"
    (described,) = cluster.found("groups", "describe", group)
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 6)
    assert cluster.lags(group)[0] == 6
    assert cluster.run("consume", topic, "-G", group, "-e", "-q") == "4\n5\n6\n7\n8\n9\n"
    assert cluster.lags(group)[0] == 0
    assert {"group": group, "state": "Empty"}.items() <= next(
        each for each in cluster.found("groups", "list") if each["group"] == group
    ).items()


def test_members_share_partitions_and_take_over_from_one_that_ends(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(4)
    first = cluster.start("consume", topic, "-G", group, "-f", "%v\\n")
    second = cluster.start("consume", topic, "-G", group, "-f", "%v\\n", "--offset", "start")

    def owned() -> list[list[int]]:
        try:
            (described,) = cluster.found("groups", "describe", group)
        except Failed:
            return []
        return sorted([spot["partition"] for spot in each["assignment"] or []] for each in described["members"])

    try:
        eventually(lambda: owned() == [[0, 1], [2, 3]], "two members with two partitions each", every_s=0.2)
        assert group in cluster.run("groups", "describe", group, "--members")
        with pytest.raises(Failed, match="NON_EMPTY_GROUP"):
            cluster.run("groups", "reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
        with pytest.raises(Failed, match="NON_EMPTY_GROUP"):
            cluster.run("groups", "delete", group)
        first.send_signal(signal.SIGTERM)
        assert first.wait(20) == 128 + signal.SIGTERM
        eventually(lambda: owned() == [[0, 1, 2, 3]], "one member with everything", every_s=0.2)
        cluster.run("produce", topic, "-p", "3", stdin="late\n")
        assert second.stdout is not None
        assert second.stdout.readline() == "late\n"
        second.send_signal(signal.SIGINT)
        assert second.wait(20) == 130
        assert cluster.lags(group).get(3) == 0, second.stderr.read() if second.stderr else ""
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


def test_a_static_member_keeps_its_place_and_can_be_removed(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(1, records=2)
    cluster.run("consume", topic, "-G", group, "--instance", "one", "-c", "2")
    (described,) = cluster.found("groups", "describe", group)
    assert [each["instance_id"] for each in described["members"]] == ["one"]
    assert cluster.run("groups", "remove-members", group, "--instance", "one") == "Removed one\n"
    (described,) = cluster.found("groups", "describe", group)
    assert described["members"] == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 10),
        (["--to-current"], 6),
        (["--to-offset", "3"], 3),
        (["--to-offset", "0"], 0),
        (["--to-offset", "300"], 10),
        (["--shift-by", "-2"], 4),
        (["--shift-by", "200"], 10),
        (["--to-datetime", "2001-01-01T00:00:00.000"], 0),
        (["--by-duration", "P1D"], 0),
        (["--by-duration", "PT0S"], 10),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_resets_move_offsets_to_the_chosen_position(
    cluster: Cluster, read_group: tuple[str, str], options: list[str], expected: int
) -> None:
    group, topic = read_group
    (planned,) = cluster.found("groups", "reset-offsets", group, "--topic", f"{topic}:0", *options)
    assert planned == {"group": group, "topic": topic, "partition": 0, "committed": 6, "offset": expected}


@pytest.fixture(scope="module")
def read_group(cluster: Cluster) -> tuple[str, str]:
    """A group that has read 6 of 10 records, and its topic."""
    name, topic = f"read-{secrets.token_hex(4)}", cluster.topic(1, records=10)
    cluster.run("consume", topic, "-G", name, "-c", "6")
    return name, topic


def test_a_reset_is_shown_before_it_is_done_and_can_be_carried_in_a_file(
    cluster: Cluster, group: str, tmp_path: Path
) -> None:
    topic = cluster.topic(2, records=5)
    everything = ("groups", "reset-offsets", group, "--topic", topic)
    cluster.run(*everything, "--to-latest")
    with pytest.raises(Failed, match="GROUP_ID_NOT_FOUND"):
        cluster.run("groups", "describe", group)
    cluster.run(*everything, "--to-latest", "--execute")
    plan = tmp_path / "plan.csv"
    plan.write_text(cluster.run("groups", "reset-offsets", group, "--all-topics", "--to-current", "--export"))
    assert plan.read_text() == f"{topic},0,5\n{topic},1,0\n"
    cluster.run(*everything, "--to-earliest", "--execute")
    assert cluster.lags(group) == {0: 5, 1: 0}
    cluster.run("groups", "reset-offsets", group, "--from-file", str(plan), "--execute")
    assert cluster.lags(group) == {0: 0, 1: 0}
    (behind,) = cluster.found("groups", "describe", group)
    assert all(each["behind_ms"] == 0 for each in behind["partitions"])


def test_offsets_can_be_forgotten_and_groups_deleted(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(1, records=3)
    cluster.run("consume", topic, "-G", group, "-e")
    assert cluster.found("offsets", "committed", group)[0]["offset"] == 3
    cluster.run("groups", "delete-offsets", group, "--topic", topic)
    assert cluster.found("offsets", "committed", group) == []
    cluster.run("consume", topic, "-G", group, "-e")
    cluster.run("groups", "delete", group)
    with pytest.raises(Failed, match="GROUP_ID_NOT_FOUND") as failed:
        cluster.run("groups", "delete", group)
    assert failed.value.code == 1
    assert "does not exist" in cluster.run("groups", "delete", group, "--if-exists")


def test_a_group_without_commits_begins_at_the_configured_reset(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(1, records=5)
    assert cluster.run("consume", topic, "-G", group, "-o", "-2", "-e", "-q") == "3\n4\n"
    assert cluster.run("consume", topic, "-G", group, "-o", "start", "-e", "-q") == ""
    assert cluster.run("consume", topic, "-o", "+3", "-e") == "3\n4\n"
    assert cluster.run("consume", topic, "-o", "stored", "-e", "-c", "1") == "0\n"


def test_offsets_are_found_by_time_and_old_records_deleted(cluster: Cluster) -> None:
    topic = cluster.topic(2, records=10)
    assert cluster.found("offsets", "get", topic) == [
        {"topic": topic, "partition": 0, "earliest": 0, "latest": 10, "offsets": 10},
        {"topic": topic, "partition": 1, "earliest": 0, "latest": 0, "offsets": 0},
    ]
    (latest,) = cluster.found("offsets", "get", f"{topic}:0", "--time", "max-timestamp")
    assert latest["timestamp"] > 0
    (none,) = cluster.found("offsets", "get", f"{topic}:0", "--time", "@2100-01-01")
    assert none["offset"] is None
    cluster.run("offsets", "delete-records", f"{topic}:0", "--before-offset", "4", "--dry-run")
    assert cluster.found("offsets", "get", f"{topic}:0")[0]["earliest"] == 0
    cluster.run("offsets", "delete-records", f"{topic}:0", "--before-offset", "4")
    assert cluster.found("offsets", "get", f"{topic}:0")[0]["earliest"] == 4
    cluster.run("offsets", "delete-records", topic, "--all")
    assert [each["offsets"] for each in cluster.found("offsets", "get", topic)] == [0, 0]


def test_configs_are_set_shown_with_their_sources_and_reset(cluster: Cluster) -> None:
    topic = cluster.topic()
    of_topic = ("--topic", topic)
    cluster.run("configs", "alter", *of_topic, "--set", "retention.ms=1000", "--append", "cleanup.policy=compact")
    shown = {each["name"]: each for each in cluster.found("configs", "describe", *of_topic)}
    assert shown["retention.ms"]["value"] == "1000"
    assert shown["retention.ms"]["source"] == "topic"
    assert shown["retention.ms"]["synonyms"][0] == {"name": "retention.ms", "value": "1000", "source": "topic"}
    assert shown["cleanup.policy"]["value"] == "delete,compact"
    assert "retention" in cluster.run("configs", "describe", *of_topic, "retention.ms", "--docs")
    cluster.run("configs", "alter", *of_topic, "--add-config", "retention.ms=7,cleanup.policy=[compact]")
    cluster.run("configs", "alter", *of_topic, "--set", "retention.ms=9", "--dry-run")
    cluster.run("configs", "delete", *of_topic, "cleanup.policy")
    shown = {each["name"]: each["value"] for each in cluster.found("configs", "describe", *of_topic)}
    assert shown["retention.ms"] == "7"
    assert "cleanup.policy" not in shown
    with pytest.raises(Failed, match="INVALID_CONFIG"):
        cluster.run("configs", "alter", *of_topic, "--set", "retention.ms=often")


def test_configs_of_brokers_loggers_and_groups_are_shown(cluster: Cluster) -> None:
    (broker,) = cluster.found("cluster", "brokers")
    number = str(broker["id"])
    shown = {each["name"]: each for each in cluster.found("configs", "describe", "--broker", number, "--all")}
    assert shown["log.retention.hours"]["value"] == "168"
    assert shown["log.dirs"]["read_only"]
    assert cluster.found("configs", "describe", "--broker-logger", number, "--all")
    if "metadata.version" in {each["name"] for each in cluster.found("cluster", "features")}:
        assert cluster.found("configs", "describe", "--group", "any", "--all")
    else:  # groups have no configs in ZooKeeper mode
        with pytest.raises(Failed, match="INVALID_REQUEST"):
            cluster.run("configs", "describe", "--group", "any", "--all")
    with pytest.raises(Failed, match="there is no broker 77"):
        cluster.run("configs", "describe", "--broker", "77")


def test_the_cluster_is_described(cluster: Cluster, in_zookeeper_mode: bool) -> None:
    topic = cluster.topic(3, records=1)
    described = cluster.found("cluster", "describe")
    assert cluster.run("cluster", "id").strip() == described["cluster_id"]
    assert (described["offline_partitions"], described["under_replicated_partitions"]) == (0, 0)
    (broker,) = cluster.found("cluster", "brokers")
    assert broker["address"] == cluster.server
    assert broker["leaders"] == broker["replicas"] >= 3
    features = {each["name"]: each["finalized"] for each in cluster.found("cluster", "features")}
    has_quorum = features.get("metadata.version", 0) > 0
    assert has_quorum or in_zookeeper_mode
    (directory,) = cluster.found("cluster", "log-dirs")
    assert (directory["error"], directory["broker"]) == (None, broker["id"])
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    if has_quorum:
        quorum = cluster.found("cluster", "quorum")
        assert [each["role"] for each in quorum["replicas"]] == ["leader"]
        assert quorum["high_watermark"] > 0
    assert topic in cluster.run("offsets", "get")


@pytest.mark.parametrize(
    "words",
    ["cluster describe", "cluster brokers", "cluster features", "cluster log-dirs", "cluster quorum", "offsets get"],
)
def test_people_get_a_table(cluster: Cluster, words: str) -> None:
    table = cluster.run(*words.split())
    assert re.search(r"^[A-Z][A-Z ]+  [A-Z]", table, re.MULTILINE)
    assert not re.search(r" $", table, re.MULTILINE)


def test_the_doctor_finds_nothing_wrong_with_a_healthy_broker(cluster: Cluster) -> None:
    found: dict[str, set[str]] = {}

    def is_healthy() -> bool:
        found.clear()
        for each in cluster.found("doctor", "--write"):
            found.setdefault(each["check"], set()).add(each["level"])
        checks = [found[check] for check in ("advertised address", "clock", "partitions", "groups")]
        return all("good" in levels and not levels & {"problem", "warning"} for levels in checks)

    # Groups of earlier tests may still have members, which read nothing any more.
    eventually(is_healthy, lambda: f"a doctor who finds nothing wrong: {found}")
    assert not [each for each in cluster.found("topics", "list") if each["name"].startswith("kpybroker-doctor")]


def test_completion_knows_topics_groups_and_configs(
    cluster: Cluster, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = cluster.topic(1, records=1)
    cluster.run("consume", topic, "-G", group, "-e")
    monkeypatch.setenv("KPYBROKER_BOOTSTRAP_SERVER", cluster.server)

    def completed(line: str) -> list[str]:
        words = line.split(" ")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        monkeypatch.setenv("_KPYBROKER_COMPLETE", "bash_complete")
        finished = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=30, check=False)
        return [each.partition(",")[2] for each in finished.stdout.splitlines()]

    assert completed(f"kpybroker topics describe {topic[:-2]}") == [topic]
    assert completed(f"kpybroker groups describe {group[:-2]}") == [group]
    assert completed("kpybroker configs describe --topic t retention.m") == ["retention.ms"]
    assert completed("kpybroker topics create t -c min.ins") == ["min.insync.replicas="]


def test_the_doctor_says_what_is_wrong_with_an_advertised_address(target: str, tmp_path: Path) -> None:
    if target != "kpybroker":
        pytest.skip("starts a kpybroker that advertises nonsense")
    with TARGETS["kpybroker"](directory=tmp_path) as sound:
        port = sound.port
    properties = {"advertised.listeners": f"PLAINTEXT://nowhere.invalid:{port}", "num.io.threads": "3"}
    broker = TARGETS["kpybroker"](properties, directory=tmp_path)
    with broker:
        reported = Cluster(broker.bootstrap_servers, None).run("doctor", code=4)
    assert "PROBLEM  advertised address: broker 1 tells clients to connect to nowhere.invalid" in reported
    assert "Set advertised.listeners of broker 1" in reported
    assert "log directories:" in reported


def test_records_of_transactions_can_be_left_out_until_they_are_committed(cluster: Cluster) -> None:
    topic = cluster.topic()
    identity = f"transactions-{secrets.token_hex(4)}"
    producer = Producer({"bootstrap.servers": cluster.server, "transactional.id": identity, "log_level": 0})
    producer.init_transactions(20)
    for value, end in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction), ("open", None)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        if end is not None:
            end(20)
    cluster.run("produce", topic, stdin="plain\n")
    everything = ("consume", topic, "-e", "-f", "%v ")
    assert cluster.run(*everything) == "kept dropped open plain "
    assert cluster.run(*everything, "--read-committed") == "kept "
    producer.abort_transaction(20)
    eventually(lambda: cluster.run(*everything, "--read-committed") == "kept plain ", "the end of the transaction")


class OpenToScrapers(KpyBroker):
    """kpybroker with its second port."""

    def prepare(self) -> None:
        super().prepare()
        self.http_port = free_port()

    def command(self) -> Sequence[str]:
        return [*super().command()[:-1], f"127.0.0.1:{self.http_port}"]


@pytest.mark.slow
def test_the_doctor_names_a_client_that_never_comes_back(target: str, tmp_path: Path) -> None:
    """It differs from the doctor itself, which asks for metadata too but comes to the address it was given."""
    if target != "kpybroker":
        pytest.skip("Apache Kafka does not say who never came back")
    with OpenToScrapers({}, directory=tmp_path) as broker, connect(broker.bootstrap_servers) as lost:
        lost.call(MetadataRequest(topics=[]), 12)
        command = ("doctor", "--http", f"127.0.0.1:{broker.http_port}", "--json")
        cluster = Cluster(broker.bootstrap_servers, None)

        def named() -> list[str]:
            findings = json.loads(cluster.run(*command))
            return [each["message"] for each in findings if "never come back" in each["check"]]

        assert named() == ["broker 1: every client that asked for the brokers came to one"]
        eventually(lambda: "has been asking where the brokers are" in named()[0], "the lost client", every_s=1)


def test_a_group_of_kafkas_next_protocol_is_described_too(cluster: Cluster, group: str) -> None:
    """KIP-848; where a broker does not serve it, the consumer cannot join."""
    topic = cluster.topic(2, records=5)
    features = {each["name"]: each["finalized"] for each in cluster.found("cluster", "features")}
    if not features.get("group.version"):
        pytest.skip("the cluster has classic groups only")
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.server,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.2) is not None, "the first record")
        consumer.commit(asynchronous=False)
        (described,) = cluster.found("groups", "describe", group)
        assert (described["type"], described["state"]) == ("consumer", "Stable")
        (member,) = described["members"]
        assert [spot["partition"] for spot in member["assignment"]] == [0, 1]
        assert cluster.lags(group)[0] in range(5)
    finally:
        consumer.close()
    cluster.run("groups", "reset-offsets", group, "--all-topics", "--to-latest", "--execute")
    assert cluster.lags(group)[0] == 0


def test_a_rebalance_that_halts_names_the_member_that_is_waited_for(cluster: Cluster, group: str) -> None:
    topic = cluster.topic(2)
    with connect(cluster.server) as raw:
        coordinator_ready(raw, group)
        hold_all(raw, group, topic)
        assert raw.call(beating(group, "waits", 0, topics=[topic]), 1).error_code == 0
        eventually(lambda: [each["awaited_by"] for each in waits_for(cluster, group)] == [["waits"]], "the targets")
        (blocker,) = waits_for(cluster, group)
        assert (blocker["member_id"], blocker["awaited_by"]) == ("holds", ["waits"])
        assert abs(blocker["since_ms"] - time.time() * 1_000) < 60_000
        assert "waits for" in cluster.run("groups", "describe", group, "--state")
        for member in ("holds", "waits"):
            raw.call(beating(group, member, -1), 1)
    assert "Deleted" in cluster.run("groups", "delete", group)


def hold_all(raw: RawClient, group: str, topic: str) -> None:
    """Let the member ``holds`` join and beat until it owns the topic: Kafka may compute the target after its answer."""
    epoch = 0

    def owns() -> bool:
        nonlocal epoch
        answer = raw.call(beating(group, "holds", epoch, topics=[topic]), 1)
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        return answer.assignment is not None and bool(answer.assignment.topic_partitions)

    eventually(owns, "the partitions of the first member", every_s=0.1)


def waits_for(cluster: Cluster, group: str) -> Any:
    """The members that the rebalance waits for. The heartbeat of one that waits gives the group its target."""
    with connect(cluster.server) as raw:
        (found,) = cluster.found("groups", "describe", group)
        epoch = next(each["epoch"] for each in found["members"] if each["member_id"] == "waits")
        assert raw.call(beating(group, "waits", epoch), 1).error_code == 0
    (found,) = cluster.found("groups", "describe", group)
    return found["waits_for"]
