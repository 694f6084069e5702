"""The page of a group says how its members get on: who does not fetch, who never commits, who reads too slowly."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from console_node import ConsoleNode, console_node, no_account

from kpybroker.machines.console import stuck
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.readers import names_at
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.readers import CONSOLE
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpywire.record import Record
from support.waiting import eventually


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        yield made


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stuck, "LONG_MS", 1_000)


@contextmanager
def consumer(node: ConsoleNode, group: str, client_id: str, protocol: str = "classic") -> Iterator[Consumer]:
    made = Consumer(
        {
            "group.protocol": protocol,
            "bootstrap.servers": f"127.0.0.1:{node.node.ports['PLAINTEXT']}",
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    try:
        yield made
    finally:
        made.close()


def topic_of(node: ConsoleNode, name: str, records: int = 2_000, partitions: int = 1) -> str:
    node.create(name, partitions)
    node.produce(name, [Record(value=b"x", timestamp=1)] * records)
    return name


def first(client: Consumer) -> Message:
    """The first record, so that the client has its partitions."""
    found: list[Message] = []

    def polled() -> bool:
        message = client.poll(0.2)
        if message is not None:
            found.append(message)
        return bool(found)

    eventually(polled, "a record")
    return found[0]


def group(node: ConsoleNode, name: str) -> Any:
    return node.get("/api/group", id=name).json


def listed(node: ConsoleNode, name: str) -> Any:
    return next(each for each in node.get("/api/groups").json["groups"] if each["id"] == name)


def test_a_member_that_is_paused_before_its_first_commit_is_stuck_with_an_unknown_lag(node: ConsoleNode) -> None:
    topic = topic_of(node, "paused")
    with consumer(node, "hanging", "hangs") as client:
        client.subscribe([topic])
        first(client)
        client.pause(client.assignment())

        def is_stuck() -> bool:
            client.poll(0.1)
            return bool(group(node, "hanging")["is_stuck"])

        eventually(is_stuck, "the group is stuck")
        found = group(node, "hanging")
        assert found["verdict"].startswith("hangs has paused-0 and does not fetch it: it is paused")
        assert (found["lag"], found["unknown"]) == (None, 1)
        (row,) = found["positions"]
        assert (row["topic"], row["partition"], row["committed"], row["member"]) == ("paused", 0, None, "hangs")
        assert (listed(node, "hanging")["lag"], listed(node, "hanging")["unknown"]) == (found["lag"], found["unknown"])
        assert "unknown" in node.get("/group", id="hanging").text


def test_a_member_that_reads_and_never_commits_has_an_unknown_lag(node: ConsoleNode) -> None:
    topic = topic_of(node, "uncommitted", 5)
    with consumer(node, "forgetful", "reads") as client:
        client.subscribe([topic])
        first(client)

        def has_read() -> bool:
            client.poll(0.1)
            return bool(group(node, "forgetful")["positions"][0]["fetched"] == 5)

        eventually(has_read, "everything is fetched")
        found = group(node, "forgetful")
        assert found["verdict"].startswith("reads reads uncommitted-0, and has never committed there: it was sent")
        assert (found["is_stuck"], found["lag"], found["unknown"]) == (False, None, 1)
        (reader,) = node.get(f"/api/topics/{topic}").json["readers"]
        assert (reader["name"], reader["is_group"], reader["lag"], reader["unknown"]) == ("forgetful", True, None, 1)


def test_a_partition_without_records_has_no_lag_wherever_its_group_begins(node: ConsoleNode) -> None:
    topic = topic_of(node, "half-empty", 1, partitions=2)
    with consumer(node, "both", "reads-both") as client:
        client.subscribe([topic])
        client.commit(message=first(client), asynchronous=False)
        found = group(node, "both")
        assert [(each["partition"], each["lag"]) for each in found["positions"]] == [(0, 0), (1, 0)]


def test_a_member_that_stops_fetching_behind_its_last_commit_is_stuck(node: ConsoleNode) -> None:
    topic = topic_of(node, "stopped", 10)
    with consumer(node, "stopping", "stops") as client:
        client.subscribe([topic])
        first(client)
        client.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        client.pause(client.assignment())

        def is_stuck() -> bool:
            client.poll(0.1)
            return bool(group(node, "stopping")["is_stuck"])

        eventually(is_stuck, "the group is stuck")
        found = group(node, "stopping")
        assert found["lag"] == 6
        assert "stopped-0" in found["verdict"]
        assert "stops" in found["verdict"]


def test_a_member_that_reads_slower_than_is_written_falls_behind(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stuck, "WATCHED_S", 1.0)
    monkeypatch.setattr(stuck, "KEEPS_UP_S", 1.0)
    monkeypatch.setattr("kpybroker.monitoring.console.lag_history.WATCHED_S", 1.0)
    monkeypatch.setattr("kpybroker.monitoring.console.lag_history.LEAST_MS", 100)
    topic = topic_of(node, "busy", 1)
    with node.client as member:
        name = node.join(member, "slow")
        committed = 0

        def falls_behind() -> bool:
            nonlocal committed
            committed += 1
            node.commit("slow", topic, committed, name, 1)
            node.produce(topic, [Record(value=b"x", timestamp=1)] * 20)
            return bool(group(node, "slow")["falls_behind"])

        eventually(falls_behind, "the group falls behind")
        found = group(node, "slow")
        assert found["read_per_s"] < found["written_per_s"]
        assert "Falls behind" in node.get("/group", id="slow").text or found["is_stuck"]


def test_members_of_a_group_are_no_readers_without_a_group(node: ConsoleNode) -> None:
    topic = topic_of(node, "shared", 3)
    with consumer(node, "committing", "my-app") as one, consumer(node, "other", "my-job") as two:
        for client in (one, two):
            client.subscribe([topic])
            first(client)
        one.commit(asynchronous=False)
        names = [each["name"] for each in node.get("/api/groups").json["readers"]]
        assert "my-app" not in names
        assert "my-job" not in names
        readers = {each["name"]: each["is_group"] for each in node.get(f"/api/topics/{topic}").json["readers"]}
        assert readers == {"committing": True, "other": True}
        metrics = node.get("/metrics").text
        assert 'consumergroup="my-app"' not in metrics
        assert 'consumergroup="my-job"' not in metrics


def test_a_reader_without_a_group_is_listed(node: ConsoleNode) -> None:
    topic = topic_of(node, "assigned", 3)
    with consumer(node, "unused", "alone") as client:
        client.assign([TopicPartition(topic, 0, 0)])
        first(client)

        def is_listed() -> bool:
            return any(each["name"] == "alone" for each in node.get("/api/groups").json["readers"])

        eventually(is_listed, "the list, which is kept for a moment, has the reader")


def test_the_console_of_another_node_is_no_reader_of_what_it_fetches(node: ConsoleNode) -> None:
    topic = topic_of(node, "shown", 3)
    with consumer(node, "unused", CONSOLE) as console, consumer(node, "unused", "later") as client:
        for each in (console, client):
            each.assign([TopicPartition(topic, 0, 0)])
            first(each)

        def names() -> set[str]:
            return {each["name"] for each in node.get("/api/groups").json["readers"]}

        eventually(lambda: "later" in names(), "the list, which is kept for a moment, has the reader")
        assert CONSOLE not in names()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_known_from_the_node_that_coordinates_their_group(node: ConsoleNode, protocol: str) -> None:
    topic = topic_of(node, f"away-{protocol}", 3)
    with consumer(node, f"group-{protocol}", f"member-{protocol}", protocol) as client:
        client.subscribe([topic])
        first(client)
        assert node.node.broker is not None
        elsewhere = SimpleNamespace(elsewhere=Elsewhere(node.node.broker, no_account))
        names = node.run(names_at(elsewhere, Viewer(ANONYMOUS, "127.0.0.1", None), 1))  # type: ignore[arg-type]
        assert {f"group-{protocol}", f"member-{protocol}"} <= names
