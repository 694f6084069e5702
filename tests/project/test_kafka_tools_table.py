"""docs/cli.md has every tool of Apache Kafka 4.4, and each command that it names exists with its options."""

import shlex

import click
import pytest

from kpybroker.cli import main
from release.documents.kafka_tools import TOOLS, KafkaTask, commands_in
from support.java_tools import TOOLS as STARTED

SCRIPTS = """
connect-distributed connect-internal-topics connect-mirror-maker connect-plugin-path connect-standalone kafka-acls
kafka-broker-api-versions kafka-client-metrics kafka-cluster kafka-configs kafka-console-consumer kafka-console-producer
kafka-console-share-consumer kafka-consumer-groups kafka-consumer-perf-test kafka-delegation-tokens kafka-delete-records
kafka-dump-log kafka-e2e-latency kafka-features kafka-get-offsets kafka-groups kafka-jmx kafka-leader-election
kafka-log-dirs kafka-metadata-quorum kafka-metadata-shell kafka-producer-perf-test kafka-reassign-partitions
kafka-replica-verification kafka-run-class kafka-server-start kafka-server-stop kafka-share-consumer-perf-test
kafka-share-groups kafka-storage kafka-streams-application-reset kafka-streams-groups kafka-topics kafka-transactions
kafka-verifiable-consumer kafka-verifiable-producer kafka-verifiable-share-consumer trogdor
"""
"""``bin/*.sh`` of https://github.com/apache/kafka, and the scripts of the classes in kafka-tools-4.4.0.jar that can be
started. ``test_every_tool_is_run`` holds these classes against the jar."""
ENTRIES = [(tool, task) for tool, tasks in TOOLS.items() for task in tasks]


def test_every_tool_of_kafka_is_in_the_table() -> None:
    assert set(TOOLS) == set(SCRIPTS.split())
    assert {name for name in STARTED if name.startswith(("kafka-", "connect-"))} <= set(TOOLS)


@pytest.mark.parametrize(("tool", "task"), ENTRIES, ids=lambda value: value if isinstance(value, str) else value.task)
def test_a_command_in_the_table_exists_with_its_options(tool: str, task: KafkaTask) -> None:
    assert task.ours, f"{tool} has a command or a reason"
    for line in commands_in(task):
        words = shlex.split(line)[1:]
        command: click.Command = main
        while words and isinstance(command, click.Group):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, line
            command = found
        options = {name for each in command.params for name in each.opts}
        assert {word for word in words if word.startswith("-")} <= options, line
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        assert arguments or not words or words[0].startswith("-"), line
