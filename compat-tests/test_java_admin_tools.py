"""The tools in Kafka's bin/ that administer a broker print what they print on Apache Kafka.

What that is stands in ``expected/admin_tools.txt``, written by ``--target apache-kafka --record``: each command, what
it printed, and its exit code. Commands follow one another on one topic. ``test_java_tools.py`` has the daily ones.
"""

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from java_tools import JavaTools
from targets import EXTERNAL

pytestmark = pytest.mark.java

EXPECTED: Final = Path(__file__).resolve().parent / "expected" / "admin_tools.txt"
TOPIC: Final = "tools-of-java"
COMMANDS: Final = f"""
kafka-topics --create --topic {TOPIC} --partitions 2 --replication-factor 1
kafka-topics --describe --topic {TOPIC} --at-min-isr-partitions
kafka-features upgrade --feature metadata.version=30
kafka-features upgrade --metadata 4.3 --dry-run
kafka-features downgrade --feature metadata.version=29
kafka-features downgrade --metadata 4.0 --dry-run
kafka-features upgrade --feature no.such.version=1
kafka-features disable --feature metadata.version
kafka-leader-election --election-type preferred --topic {TOPIC} --partition 0
kafka-leader-election --election-type preferred --all-topic-partitions
kafka-leader-election --election-type unclean --topic {TOPIC} --partition 1
kafka-leader-election --election-type preferred --topic no-such-topic --partition 0
kafka-log-dirs --describe --topic-list {TOPIC}
kafka-log-dirs --describe --broker-list 77
kafka-metadata-quorum describe --status
kafka-metadata-quorum describe --replication
kafka-metadata-quorum describe --replication --human-readable
kafka-cluster cluster-id
kafka-cluster unregister --id 77
kafka-cluster list-endpoints
kafka-cluster list-endpoints --include-fenced-brokers
kafka-client-metrics --alter --name tools --metrics a.b --interval 30000 --match client_id=x
kafka-client-metrics --list
kafka-client-metrics --describe --name tools
kafka-client-metrics --alter --name tools --interval 10
kafka-client-metrics --delete --name tools
kafka-client-metrics --list
kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.cleaner.backoff.ms=20000
kafka-configs --describe --entity-type brokers --entity-name 1
kafka-configs --alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.backoff.ms
kafka-configs --alter --entity-type brokers --entity-name 1 --add-config node.id=7
kafka-configs --alter --entity-type brokers --entity-default --add-config log.cleaner.backoff.ms=21000
kafka-configs --alter --entity-type brokers --entity-default --delete-config log.cleaner.backoff.ms
kafka-configs --alter --entity-type brokers --entity-default --add-config listeners=PLAINTEXT://:9
kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config no.such.logger=INFO
kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config root=LOUD
kafka-configs --alter --entity-type groups --entity-name tools --add-config consumer.session.timeout.ms=50000
kafka-configs --describe --entity-type groups --entity-name tools
kafka-configs --alter --entity-type groups --entity-name tools --delete-config consumer.session.timeout.ms
kafka-configs --alter --entity-type groups --entity-name tools --add-config consumer.session.timeout.ms=1
kafka-configs --alter --entity-type client-metrics --entity-name tools --add-config interval.ms=2000
kafka-configs --describe --entity-type client-metrics --entity-name tools
kafka-configs --alter --entity-type client-metrics --entity-name tools --delete-config interval.ms
kafka-configs --alter --entity-type topics --entity-name {TOPIC} --add-config cleanup.policy=[compact,delete]
kafka-configs --describe --entity-type topics --entity-name {TOPIC}
kafka-configs --describe --entity-type topics --entity-name no-such-topic
kafka-configs --describe --entity-type users --entity-name somebody
kafka-configs --describe --entity-type clients
kafka-configs --describe --entity-type ips
kafka-acls --list
kafka-acls --add --allow-principal User:a --operation Read --topic {TOPIC}
kafka-acls --remove --force --allow-principal User:a --operation Read --topic {TOPIC}
kafka-delegation-tokens --describe --command-config /dev/null
kafka-reassign-partitions --list
kafka-reassign-partitions --generate --topics-to-move-json-file TOPICS --broker-list 1
kafka-reassign-partitions --verify --reassignment-json-file MOVES
kafka-transactions describe-producers --topic {TOPIC} --partition 0
kafka-transactions find-hanging --broker-id 1
kafka-transactions find-hanging --topic {TOPIC} --partition 0
kafka-transactions abort --topic {TOPIC} --partition 0 --start-offset 0
kafka-topics --alter --topic {TOPIC} --partitions 1
kafka-topics --alter --topic {TOPIC} --partitions 3
kafka-get-offsets --topic no-such-topic
kafka-get-offsets --topic-partitions {TOPIC}:0
kafka-topics --delete --topic {TOPIC}
kafka-topics --delete --topic {TOPIC}
""".strip().splitlines()
SERVER_FIRST: Final = {"kafka-features", "kafka-metadata-quorum", "kafka-transactions"}
"""Their options come before the name of what to do."""
READ_ONLY: Final = {"--describe", "--list"}
ATTEMPTS: Final = 10
"""For what changes nothing: a broker takes a change over soon after the controller has answered."""


def command_of(line: str, bootstrap_servers: str, files: Path) -> Sequence[str]:
    """The tool and its arguments; capital words are files."""
    tool, *arguments = (str(files / word) if word.isupper() and len(word) > 1 else word for word in line.split())
    server = ["--bootstrap-server", bootstrap_servers]
    return [tool, *server, *arguments] if tool in SERVER_FIRST else [tool, *arguments, *server]


def normalised(text: str) -> str:
    """Without what differs from broker to broker and from run to run, and without stack traces."""
    lines = [line.rstrip() for line in text.splitlines()]
    traced = re.compile(r"\tat |Caused by: |\t\.\.\. |Tools\$Ended|.*with args '")
    text = "\n".join(line for line in lines if line and not traced.match(line))
    text = re.sub(r"127\.0\.0\.1(:| +)\d+", "ADDRESS", text)
    text = re.sub(r', "endpoints": \[.*?\]', "", text)
    text = re.sub(r"(HighWatermark: +|Cluster ?I[dD]: +)\S+", r"\1SOME", text)
    text = re.sub(r'("directoryId": )"\S+"', r"\1SOME", text)
    text = re.sub(r"^1 +\t\S+\t\d+ +\t0 .*", "1 SOME SOME 0 NOW NOW Leader", text, flags=re.M)
    return re.sub(r'("logDir":|"log_dirs":\[)"/.*?"', r"\1DIRECTORY", text)


def transcripts(text: str) -> list[tuple[str, str]]:
    """(command, what became of it)."""
    entries = (entry.partition("\n") for entry in text.split("$ ") if entry)
    return [(line, outcome.rstrip("\n")) for line, _, outcome in entries]


def expected() -> list[tuple[str, str]]:
    return transcripts(EXPECTED.read_text()) if EXPECTED.exists() else []


@pytest.fixture(scope="module")
def printed(
    request: pytest.FixtureRequest,
    java_tools: JavaTools,
    bootstrap_servers: str,
    target: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[tuple[str, str]]:
    """What each command left behind, in their order."""
    if target == EXTERNAL:
        pytest.skip("configures the broker, and --bootstrap-server names one of somebody else")
    files = tmp_path_factory.mktemp("plans")
    (files / "TOPICS").write_text(json.dumps({"version": 1, "topics": [{"topic": TOPIC}]}))
    moves = [{"topic": TOPIC, "partition": 0, "replicas": [1]}]
    (files / "MOVES").write_text(json.dumps({"version": 1, "partitions": moves}))
    recording = request.config.getoption("--record") and target == "apache-kafka"
    wanted = [] if recording else expected()
    found = []
    for number, line in enumerate(COMMANDS):
        command = command_of(line, bootstrap_servers, files)
        for _ in range(ATTEMPTS):
            finished = java_tools.run(*command)
            text = normalised(finished.text)
            outcome = f"{text}\nexit {finished.exit_code}" if text else f"exit {finished.exit_code}"
            if (line, outcome) in wanted[number : number + 1] or not READ_ONLY & set(command):
                break
            time.sleep(0.05)
        found.append((line, outcome))
    if recording:
        EXPECTED.write_text("".join(f"$ {line}\n{outcome}\n" for line, outcome in found))
    return found


def test_every_command_is_recorded(printed: list[tuple[str, str]]) -> None:
    assert [line for line, _ in expected()] == [line for line, _ in printed]


@pytest.mark.parametrize("number", range(len(expected())), ids=[line for line, _ in expected()])
def test_a_command_prints_what_it_prints_on_apache_kafka(printed: list[tuple[str, str]], number: int) -> None:
    assert printed[number] == expected()[number]
