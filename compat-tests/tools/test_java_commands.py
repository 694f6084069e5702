"""Every Java tool that talks to a broker prints what it prints on Apache Kafka.

What that is stands in ``expected/java_commands.txt``; where kpybroker does otherwise, or does not serve what is asked
for, in ``expected/java_commands_kpybroker.txt``, which may only become shorter. Targets in ZooKeeper mode have files of
their own with what is not the same there (`parity.LAYERS`). All are written by ``make parity``.
Commands follow one another on one broker (`java_commands`); ``test_java_tools.py`` looks closer at the daily ones.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from oracle import jars, jars_directory
from support import parity
from support.java_commands import (
    COMMANDS,
    HMAC,
    READ_ONLY,
    RUN_ELSEWHERE,
    TOPIC,
    WITHOUT_A_BROKER,
    command_of,
    normalised,
    numbered,
)
from support.java_tools import TOOLS, JavaTools
from support.replica_verification import verifying
from support.targets import EXTERNAL, TARGETS

pytestmark = pytest.mark.java

ATTEMPTS: Final = 10
"""The attempts at steps that change nothing: a broker takes a change over soon after the controller has answered."""
WORKER: Final = """
bootstrap.servers=SERVER
group.id=tools-connect
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
config.storage.topic=tools-connect-configs
offset.storage.topic=tools-connect-offsets
offset.storage.partitions=1
status.storage.topic=tools-connect-status
status.storage.partitions=1
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
"""
JARS: Final = ("kafka-tools-*.jar", "kafka_2.*.jar")


def files_for_commands(directory: Path, bootstrap_servers: str) -> Path:
    moves = [{"topic": TOPIC, "partition": 0, "replicas": [1]}]
    offsets = [{"topic": "tools-of-values", "partition": 0, "offset": 0}]
    contents = {
        "TOPICS": {"version": 1, "topics": [{"topic": TOPIC}]},
        "MOVES": {"version": 1, "partitions": moves},
        "OFFSETS": {"version": 1, "partitions": offsets},
    }
    for name, content in contents.items():
        (directory / name).write_text(json.dumps(content))
    (directory / "EMPTY").write_text("")
    (directory / "WORKER").write_text(WORKER.replace("SERVER", bootstrap_servers))
    return directory


def run_all(
    java_tools: JavaTools,
    lines: Sequence[str],
    bootstrap_servers: str,
    files: Path,
    wanted: Mapping[str, str] | None,
) -> dict[str, str]:
    """The output of each command. Steps that change nothing are repeated until they print what is wanted; without
    ``wanted``, which is to record, once more."""
    found: dict[str, str] = {}
    hmac = ""
    for line in lines:
        command, stdin = command_of(line.replace("HMAC", hmac), bootstrap_servers, files)
        name = numbered(line, found)
        for attempt in range(1, ATTEMPTS + 1):
            finished = java_tools.run(*command, stdin=stdin)
            text = normalised(command[0], finished.text)
            found[name] = f"{text}\nexit {finished.exit_code}" if text else f"exit {finished.exit_code}"
            is_done = attempt > 1 if wanted is None else found[name] == wanted.get(name)
            if is_done or not READ_ONLY & set(command):
                break
            time.sleep(0.05)
        if "--create" in command and (created := HMAC.search(finished.text)):
            hmac = created[0]
    return found


@pytest.fixture(scope="module")
def printed(
    request: pytest.FixtureRequest,
    java_tools: JavaTools,
    target: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    """The output of each command, in their order, on a broker of their own: some list all that is there."""
    if target == EXTERNAL:
        pytest.skip("configures the broker, and --bootstrap-server names one of somebody else")
    with TARGETS[target](directory=tmp_path_factory.mktemp("broker")) as broker:
        return all_of_them(request, java_tools, broker.bootstrap_servers, target, tmp_path_factory)


def all_of_them(
    request: pytest.FixtureRequest,
    java_tools: JavaTools,
    bootstrap_servers: str,
    target: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str]:
    files = files_for_commands(tmp_path_factory.mktemp("plans"), bootstrap_servers)
    recording = request.config.getoption("--record")
    wanted = None if recording else parity.commands_expected(target)
    found = run_all(java_tools, COMMANDS, bootstrap_servers, files, wanted)
    if recording:
        parity.record_commands(target, found)
    return found


def test_every_command_is_recorded(printed: dict[str, str], target: str) -> None:
    assert list(printed) == list(parity.commands_expected(target))


@pytest.mark.parametrize("line", parity.commands_expected("apache-kafka"))
def test_a_command_prints_what_it_prints_on_apache_kafka(printed: dict[str, str], line: str, target: str) -> None:
    assert printed[line] == parity.commands_expected(target)[line], parity.HOW_TO_RECORD


def test_every_tool_is_run(java_tools: JavaTools) -> None:
    """None of the classes that can be started is forgotten."""
    jars = [str(jar) for pattern in JARS for jar in jars_directory().glob(pattern)]
    listed = {*java_tools.run("tools-list", *jars).out.split()}
    ran = {TOOLS[line.split()[0]] for line in COMMANDS}
    assert len(listed) > 30
    assert listed - ran == {*WITHOUT_A_BROKER, *RUN_ELSEWHERE}


@pytest.mark.slow
def test_the_log_compaction_tester_finds_no_mistake(java_tools: JavaTools, bootstrap_servers: str) -> None:
    command = ["log-compaction-tester", "--bootstrap-server", bootstrap_servers, "--messages", "200", "--topics", "1"]
    tested = java_tools.run(*command, "--sleep", "20", "--duplicates", "5", timeout_s=120)
    assert "Data verification is completed" in tested.out, tested.text
    assert ", 0 mismatches" in tested.out


def test_the_replica_verification_tool_finds_every_replica_alike(
    bootstrap_servers: str, topic: str, tmp_path: Path, in_zookeeper_mode: bool
) -> None:
    release = jars.KAFKA_BEFORE_4 if in_zookeeper_mode else jars.KAFKA_VERSION
    with verifying(bootstrap_servers, topic, tmp_path / "errors", release) as reports:
        assert "max lag is 0 for partition" in reports.readline()
