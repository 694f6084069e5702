"""``kafka-streams-groups`` prints what it prints on Apache Kafka; ``kpybroker groups`` shows the same group.

The group has members that send their heartbeats here, so that both brokers are in the same state for every command.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import pytest
from click.testing import CliRunner

from kpybroker.cli.groups import command as groups_command
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequestEndpoint, TopicInfo, Topology
from support.group_requests import committing, coordinator_ready
from support.java_commands import normalised
from support.java_tools import JavaTools
from support.raw_client import RawClient, connect
from support.streams_requests import IN_MEMORY_PLUGIN, describing, source_of, streaming
from support.targets import TARGETS
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

APPLICATION: Final = "counting"
PROPERTIES: Final = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.streams.topology.description.plugin.class": IN_MEMORY_PLUGIN,
}
REPARTITION, CHANGELOG = f"{APPLICATION}-words-repartition", f"{APPLICATION}-counts-changelog"
TOOL: Final = "kafka-streams-groups"
GROUP: Final = ("--group", APPLICATION)
WITH_MEMBERS: Final = (
    ("--list",),
    ("--list", "--state"),
    ("--list", "--state", "Stable,Empty"),
    ("--describe", *GROUP),
    ("--describe", *GROUP, "--verbose"),
    ("--describe", *GROUP, "--topology"),
    ("--describe", *GROUP, "--members"),
    ("--describe", *GROUP, "--members", "--verbose"),
    ("--describe", *GROUP, "--state"),
    ("--describe", *GROUP, "--state", "--verbose"),
    ("--describe", "--all-groups", "--offsets", "--verbose"),
    ("--reset-offsets", *GROUP, "--input-topic", "lines", "--to-earliest", "--execute"),
    ("--delete-offsets", *GROUP, "--input-topic", "lines"),
    ("--delete", *GROUP),
)
WITHOUT: Final = (
    ("--list", "--state"),
    ("--describe", *GROUP),
    ("--reset-offsets", *GROUP, "--input-topic", "lines", "--to-earliest", "--dry-run"),
    ("--reset-offsets", *GROUP, "--all-input-topics", "--to-latest", "--execute"),
    ("--describe", *GROUP, "--offsets"),
    ("--delete-offsets", *GROUP, "--input-topic", "lines"),
    ("--describe", *GROUP, "--topology"),
    ("--delete", *GROUP),
    ("--list",),
    ("--describe", *GROUP),
)


def topology() -> Topology:
    def internal(name: str) -> TopicInfo:
        return TopicInfo(name=name, partitions=0, replication_factor=1, topic_configs=[])

    writer = source_of("0", "lines", sinks=[REPARTITION])
    reader = source_of("1", repartition=[internal(REPARTITION)], changelogs=[internal(CHANGELOG)])
    return Topology(epoch=0, subtopologies=[writer, reader])


class Side(NamedTuple):
    """One broker, with a connection that speaks for the members."""

    bootstrap_servers: str
    raw: RawClient

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Any:
        answer = self.raw.call(streaming(APPLICATION, member_id, epoch, **fields), 0)
        assert answer.error_code == 0, answer
        return answer

    def settle(self) -> int:
        """Two members of one application, with all their tasks; their epoch."""
        endpoint = StreamsGroupHeartbeatRequestEndpoint(host="localhost", port=9_000)
        shape: dict[str, Any] = {"topology": topology(), "user_endpoint": endpoint, "rack_id": "r"}
        epochs: dict[str, int] = {}
        owned: dict[str, dict[str, list[int]]] = {"a": {}, "b": {}}

        def take(member_id: str, answer: Any) -> None:
            epochs[member_id] = answer.member_epoch
            if answer.active_tasks is not None:
                owned[member_id] = {tasks.subtopology_id: list(tasks.partitions) for tasks in answer.active_tasks}

        for each in owned:
            take(each, self.beat(each, 0, process_id=f"process-{each}", **shape))

        def is_settled() -> bool:
            for each in owned:
                take(each, self.beat(each, epochs[each], active=owned[each]))
            held = sum(len(partitions) for tasks in owned.values() for partitions in tasks.values())
            return epochs["a"] == epochs["b"] and held == 4

        eventually(is_settled, "all tasks", 30, every_s=0.2)
        return epochs["a"]


def create_topics(raw: RawClient) -> None:
    """Create all topics beforehand, so that the epochs of the group do not depend on when they are there."""
    names = ("lines", REPARTITION, CHANGELOG)
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]) for name in names
    ]
    raw.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000, validate_only=False), 7)
    wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    eventually(lambda: all(each.error_code == 0 for each in raw.call(wanted, 12).topics), "the topics")


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory, target: str) -> Iterator[tuple[Side, Side]]:
    if target != "kpybroker":
        pytest.skip("compares kpybroker with Apache Kafka")
    with ExitStack() as stack:
        made = []
        for name in ("kpybroker", "apache-kafka"):
            broker = stack.enter_context(TARGETS[name](dict(PROPERTIES), directory=tmp_path_factory.mktemp(name)))
            raw = stack.enter_context(connect(broker.bootstrap_servers))
            create_topics(raw)
            coordinator_ready(raw, APPLICATION)
            made.append(Side(broker.bootstrap_servers, raw))
        yield made[0], made[1]


def printed(tools: JavaTools, side: Side, arguments: tuple[str, ...]) -> str:
    """The output in the order of its lines, without what no two brokers have alike."""
    finished = tools.run(TOOL, *arguments, "--bootstrap-server", side.bootstrap_servers)
    text = re.sub(r" +", " ", normalised(TOOL, finished.text))
    return "\n".join([*sorted(line.rstrip() for line in text.splitlines()), f"exit {finished.exit_code}"])


def test_the_tool_prints_what_it_prints_on_apache_kafka(sides: tuple[Side, Side], java_tools: JavaTools) -> None:
    ours, theirs = sides
    for side in sides:
        epoch = side.settle()
        request = committing(APPLICATION, {"lines": [(0, 0, "m")]}, 9)
        request.member_id, request.generation_id_or_member_epoch = "a", epoch
        for member_id in ("a", "b"):
            request.member_id = member_id
            side.raw.call(request, 9)
        assert side.raw.call(describing(APPLICATION, "b"), 0).error_code == 0
    for arguments in WITH_MEMBERS:
        expected = printed(java_tools, theirs, arguments)
        assert printed(java_tools, ours, arguments) == expected, arguments
        assert ("Error" in expected) != (arguments[0] in ("--list", "--describe")), expected
    check_own_command(ours)
    for side in sides:
        for member_id in ("a", "b"):
            side.beat(member_id, -1)
    for arguments in WITHOUT:
        assert printed(java_tools, ours, arguments) == printed(java_tools, theirs, arguments), arguments


def check_own_command(ours: Side) -> None:
    """``kpybroker groups`` shows who has which task."""
    run = CliRunner().invoke
    shown = run(groups_command, ["describe", APPLICATION, "--members", "--bootstrap-server", ours.bootstrap_servers])
    assert shown.exit_code == 0, shown.output
    assert "counting  Stable, streams" in shown.output
    assert "topology epoch 0\n" in shown.output
    tasks = re.findall(r"\b[01]_[01]\b", shown.output)
    assert sorted(tasks) == ["0_0", "0_1", "1_0", "1_1"]
    listed = run(groups_command, ["describe", APPLICATION, "--json", "--bootstrap-server", ours.bootstrap_servers])
    (group,) = json.loads(listed.stdout)
    assert group["internal_topics"] == [CHANGELOG, REPARTITION]
    assert {each["tasks"]["process_id"] for each in group["members"]} == {"process-a", "process-b"}
