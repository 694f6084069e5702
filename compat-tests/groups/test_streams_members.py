"""Kafka Streams with ``group.protocol=streams`` and static members, which describe their topology (KIP-1331).

On Apache Kafka a plug-in keeps the descriptions, in memory: there they are lost with the broker.
"""

import json
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from conftest import StartBroker
from kpybroker.cli.groups import command as groups_command
from kpybroker.client.client import Client
from kpybroker.client.topology_descriptions import topology_nodes
from kpybroker.machines.errors import KafkaError
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from streams.test_streams import PARTITIONS, instance
from support.java_tools import JavaTools
from support.streams_requests import IN_MEMORY_PLUGIN
from support.topics import create_topic
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

APPLICATION: Final = "account-totals"
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.topology.description.plugin.class": IN_MEMORY_PLUGIN,
}
SUBTOPOLOGIES: Final = {"0", "1"}


def described(server: str) -> Any:
    with Client(server) as client:
        request = StreamsGroupDescribeRequest(group_ids=[APPLICATION], include_authorized_operations=False)
        (found,) = client.call_coordinator(APPLICATION, request).groups
    return found


def tasks_of(server: str) -> dict[str, set[str]]:
    """The active tasks of each static member."""
    return {
        member.instance_id: {
            f"{task.subtopology_id}_{partition}"
            for task in member.assignment.active_tasks
            for partition in task.partitions
        }
        for member in described(server).members
    }


def are_settled(server: str) -> bool:
    tasks = tasks_of(server)
    return described(server).group_state == "Stable" and sorted(map(len, tasks.values())) == [PARTITIONS, PARTITIONS]


def nodes(server: str) -> Any:
    with Client(server) as client:
        try:
            return topology_nodes(client, APPLICATION)
        except KafkaError as error:
            return str(error)


def test_static_members_keep_their_tasks_and_the_topology_is_described(
    start_broker: StartBroker, java_tools: JavaTools, tmp_path: Path, target: str
) -> None:
    broker = start_broker(**SETTINGS)
    server = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": server})
    for topic in ("payments", "totals"):
        create_topic(admin, topic, PARTITIONS)
    with ExitStack() as stack:
        instances = [
            stack.enter_context(instance(tmp_path / name, server, "streams", f"group.instance.id={name}"))
            for name in ("one", "other")
        ]
        for each in instances:
            eventually(partial(each.times, "RUNNING"), "both instances", 180)
        eventually(partial(are_settled, server), "three tasks for each member", 120)
        before, epoch = tasks_of(server), described(server).group_epoch
        instances[1].end()
        instances[1].start()
        eventually(lambda: instances[1].times("RUNNING") > 1, "the second instance again", 180)
        eventually(partial(are_settled, server), "its tasks", 120)
        assert tasks_of(server) == before, "a static member keeps its tasks"
        assert described(server).group_epoch == epoch, "without a rebalance"
        eventually(lambda: isinstance(nodes(server), list), "the description", 120)
        check_shown(server, java_tools)
        if target == "kpybroker":
            broker.restart(kill=True)
            eventually(lambda: isinstance(nodes(server), list), "the description after a restart", 60)
        assert [each.process.poll() for each in instances] == [None, None]


def check_shown(server: str, java_tools: JavaTools) -> None:
    """Kafka's own tool and ``kpybroker groups`` print the nodes."""
    arguments = ("--describe", "--group", APPLICATION, "--topology", "--bootstrap-server", server)
    printed = java_tools.run("kafka-streams-groups", *arguments)
    assert printed.exit_code == 0, printed.text
    run = CliRunner().invoke
    shown = run(groups_command, ["describe", APPLICATION, "--topology", "--json", "--bootstrap-server", server])
    assert shown.exit_code == 0, shown.output
    (group,) = json.loads(shown.stdout)
    assert {each["subtopology"] for each in group["topology"]} == SUBTOPOLOGIES
    assert {"source", "processor", "sink"} == {each["kind"] for each in group["topology"]}
    assert {topic for each in group["topology"] for topic in each["topics"]} >= {"payments", "totals"}
    assert "totals" in {store for each in group["topology"] for store in each["stores"]}
    for each in group["topology"]:
        assert each["name"] in printed.text
    text = run(groups_command, ["describe", APPLICATION, "--topology", "--bootstrap-server", server]).output
    assert "SUBTOPOLOGY" in text
    assert "KSTREAM-SOURCE-0000000000" in text
    print(printed.text)
