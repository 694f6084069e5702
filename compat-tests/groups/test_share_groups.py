"""Share groups with Java's KafkaShareConsumer and Java's tools: every record is accepted, rejected or counted out."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from conftest import StartBroker
from kpybroker.cli import main
from kpywire import api, error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from oracle import BrokerProcess, compile_java
from oracle.jars import jvm
from support.java_tools import JavaTools
from support.raw_client import connect
from support.raw_requests import GROUP, SET, TOPIC, configs_set, incremental_alteration
from support.topics import create_topic
from support.waiting import eventually

pytestmark = pytest.mark.java

JAVA = Path(__file__).resolve().parents[1] / "java"
ONE = {
    "share_coordinator_state_topic_replication_factor": "1",
    "share_coordinator_state_topic_min_isr": "1",
    "group_share_min_record_lock_duration_ms": "1000",
    "group_share_min_heartbeat_interval_ms": "500",
    "group_share_heartbeat_interval_ms": "500",
}


@pytest.fixture
def broker(start_broker: StartBroker) -> BrokerProcess:
    """A broker whose share groups settle fast, and let go of records fast."""
    return start_broker(**ONE)


def configure(broker: BrokerProcess, group_id: str, **configs: str) -> None:
    named = [(name.replace("_", "."), SET, value) for name, value in configs.items()]
    with connect(broker.bootstrap_servers) as client:
        answer = client.call(incremental_alteration((GROUP, group_id, named)), 1)
    assert [each.error_code for each in answer.responses] == [error_codes.NONE]


def produce(broker: BrokerProcess, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(20) == 0


def reader(broker: BrokerProcess, topic: str, mode: str, count: int, seconds: int) -> "subprocess.Popen[str]":
    program = compile_java(JAVA / "ShareReader.java")
    words = ["ShareReader", broker.bootstrap_servers, topic, "g", mode, str(count), str(seconds)]
    return subprocess.Popen([*jvm(program), *words], stdout=subprocess.PIPE, text=True)


def lines_of(process: "subprocess.Popen[str]") -> list[str]:
    output, _ = process.communicate(timeout=90)
    assert process.returncode == 0, output
    return output.splitlines()


def records_in(lines: list[str]) -> Counter[str]:
    """How often each value was delivered."""
    return Counter(line.split()[1] for line in lines if line[0].isdigit())


def tool(tools: JavaTools, broker: BrokerProcess, *words: str, program: str = "kafka-share-groups") -> str:
    finished = tools.run(program, "--bootstrap-server", broker.bootstrap_servers, *words, timeout_s=90)
    assert finished.exit_code == 0, finished.text
    return finished.out


def test_the_feature_is_finalised_and_its_requests_are_advertised(broker: BrokerProcess) -> None:
    with connect(broker.bootstrap_servers) as client:
        answer = client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    assert finalized["share.version"] == 2
    keys = {each.api_key for each in answer.api_keys}
    assert keys >= {api.SHARE_GROUP_HEARTBEAT, api.SHARE_FETCH, api.SHARE_ACKNOWLEDGE, api.DELETE_SHARE_GROUP_OFFSETS}


def test_records_are_accepted_rejected_renewed_or_counted_out(broker: BrokerProcess, java_tools: JavaTools) -> None:
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "t", 1)
    configure(broker, "g", share_auto_offset_reset="earliest", share_delivery_count_limit="3")
    produce(broker, "t", "a", "poison", "reject", "renew", "b")
    lines = lines_of(reader(broker, "t", "explicit", 8, 60))
    assert records_in(lines) == {"a": 1, "poison": 3, "reject": 1, "renew": 2, "b": 1}
    assert {line for line in lines if not line[0].isdigit()} == {"subscribed", "committed", "closed"}
    described = tool(java_tools, broker, "--describe", "--group", "g").split()
    assert described[-1] == "0", "all five records are done with"


def test_rejected_and_counted_out_records_have_dead_letters(start_broker: StartBroker, java_tools: JavaTools) -> None:
    broker = start_broker(**ONE, errors_deadletterqueue_auto_create_topics_enable="true")
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "t", 1)
    letters = {"errors_deadletterqueue_topic_name": "dlq.g", "errors_deadletterqueue_copy_record_enable": "true"}
    configure(broker, "g", share_auto_offset_reset="earliest", share_delivery_count_limit="3", **letters)
    produce(broker, "t", "a", "poison", "reject", "renew", "b")
    lines_of(reader(broker, "t", "explicit", 8, 60))
    command = ["share", "dead-letters", "list", "g", "--json", "-b", broker.bootstrap_servers]

    def listed() -> list[dict[str, object]]:
        result = CliRunner().invoke(main, command)
        found: list[dict[str, object]] = json.loads(result.stdout) if result.exit_code == 0 else []
        return sorted(found, key=lambda each: str(each["offset"]))

    eventually(lambda: len(listed()) == 2, "two dead letters")
    shown = [(each["topic"], each["offset"], each["deliveries"], each["reason"]) for each in listed()]
    assert shown == [
        ("t", 1, 3, "Offset delivery count exceeded the threshold."),
        ("t", 2, 1, "Offset rejected by client."),
    ]
    assert all(each["is_copied"] for each in listed())
    with connect(broker.bootstrap_servers) as client:
        assert configs_set(client, TOPIC, "dlq.g") == {
            "errors.deadletterqueue.group.enable": "true",
            "message.timestamp.type": "CreateTime",
        }
    replayed = ["share", "dead-letters", "replay", "g", "--all", "-b", broker.bootstrap_servers]
    assert CliRunner().invoke(main, replayed).exit_code == 0
    described = tool(java_tools, broker, "--describe", "--group", "g").split()
    assert described[-1] == "2", "the replayed records are there to be read"


def test_records_of_a_killed_member_and_of_one_that_keeps_them_come_again(broker: BrokerProcess) -> None:
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "t", 1)
    configure(broker, "g", share_auto_offset_reset="earliest", share_record_lock_duration_ms="2000")
    produce(broker, "t", *(f"v{number}" for number in range(20)))
    killed = reader(broker, "t", "keep", 100, 60)
    assert killed.stdout is not None
    while killed.stdout.readline().strip() != "kept":
        assert killed.poll() is None
    keeper = reader(broker, "t", "keep", 100, 25)  # its locks end while it sleeps
    killed.kill()
    killed.communicate()
    lines = lines_of(reader(broker, "t", "implicit", 20, 40))
    assert records_in(lines).keys() == {f"v{number}" for number in range(20)}
    assert "committed" in lines
    keeper.kill()
    keeper.communicate()


def test_java_tools_list_describe_reset_and_delete_share_groups(broker: BrokerProcess, java_tools: JavaTools) -> None:
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), "t", 1)
    configure(broker, "g", share_auto_offset_reset="earliest")
    produce(broker, "t", "a", "b")
    words = ("--topic", "t", "--group", "g", "--max-messages", "2", "--timeout-ms", "30000")
    consumed = tool(java_tools, broker, *words, program="kafka-console-share-consumer")
    assert consumed.split() == ["a", "b"]
    assert tool(java_tools, broker, "--list", "--state").split() == ["GROUP", "STATE", "g", "Empty"]
    assert tool(java_tools, broker, "--describe", "--group", "g").split()[-1] == "0"
    tool(java_tools, broker, "--reset-offsets", "--group", "g", "--topic", "t", "--to-earliest", "--execute")
    assert tool(java_tools, broker, "--describe", "--group", "g").split()[-2:] == ["0", "2"]
    assert "Successful" in tool(java_tools, broker, "--delete-offsets", "--group", "g", "--topic", "t")
    tool(java_tools, broker, "--delete", "--group", "g")
    assert tool(java_tools, broker, "--list").split() == []
