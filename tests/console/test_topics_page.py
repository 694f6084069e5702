"""The list of topics and the page of one: sorted by each column, worst lag, and changes with their lines in the log."""

import re
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from console_node import ConsoleNode, console_node
from test_group_progress import first

from kpybroker.machines.console.listing import PER_PAGE
from kpywire.record import Record
from support.waiting import eventually

OFF = "delete.topic.enable=false"


def record(size: int = 1) -> Record:
    return Record(value=b"x" * size, timestamp=1)


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        made.get("/topics")
        for topic, partitions in (("a", 2), ("b", 1), ("c", 3)):
            made.create(topic, partitions)
        made.produce("a", [record()] * 5)
        made.produce("b", [record()] * 20)
        made.produce("c", [record(9_000)])
        made.commit("slow", "a", 0)
        made.commit("quick", "a", 4)
        made.commit("quick", "b", 19)
        yield made


def listed(node: ConsoleNode, **query: object) -> list[str]:
    return [each["name"] for each in node.get("/api/topics", **query).json["topics"]]


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("name", ["a", "b", "c"]),
        ("partitions", ["b", "a", "c"]),
        ("replicas", ["a", "b", "c"]),
        ("records", ["c", "a", "b"]),
        ("size", ["a", "b", "c"]),
        ("lag", ["b", "a", "c"]),
        ("state", ["a", "b", "c"]),
        ("no such column", ["a", "b", "c"]),
    ],
)
def test_the_list_is_sorted_by_a_column(node: ConsoleNode, column: str, names: list[str]) -> None:
    assert listed(node, sort=column) == names


def test_the_most_first(node: ConsoleNode) -> None:
    assert listed(node) == ["a", "b", "c"]
    assert listed(node, sort="-name") == ["c", "b", "a"]
    assert listed(node, sort="-records") == ["b", "a", "c"]
    assert listed(node, sort="-lag") == ["a", "b", "c"], "a topic without a reader comes last in both directions"
    assert listed(node, sort="-lag", q="b") == ["b"]


def test_the_traffic_of_the_last_seconds_sorts_the_list(node: ConsoleNode) -> None:
    eventually(lambda: node.get("/api/topics").json["topics"][0]["records_in_per_s"] is not None, "the first rates")
    for column, most in (("rate", "b"), ("in", "c")):
        names = [("b", 1), ("c", 10_000)]
        for name, size in names:
            node.produce(name, [record(size)] * (50 if name == "b" else 1))
        assert listed(node, sort=f"-{column}")[0] == most, column
    for column in ("rate", "in", "out"):
        assert set(listed(node, sort=column)) == {"a", "b", "c"}


def test_the_reader_furthest_behind_is_named(node: ConsoleNode) -> None:
    found = {each["name"]: each for each in node.get("/api/topics").json["topics"]}
    assert (found["a"]["lag"], found["a"]["reader"], found["a"]["reader_is_group"]) == (5, "slow", True)
    assert found["b"]["reader"] == "quick"
    assert (found["c"]["lag"], found["c"]["reader"], found["c"]["reader_is_group"]) == (None, None, False)
    assert '<a href="/group?id=slow">slow</a>' in node.get("/topics").text


def test_a_reader_without_a_group_counts_too() -> None:
    with console_node() as node:
        node.create("t")
        node.produce("t", [record()] * 9)
        reader = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{node.node.ports['PLAINTEXT']}",
                "group.id": "unused",
                "client.id": "alone",
                "fetch.message.max.bytes": 1,
                "log_level": 0,
            }
        )
        reader.assign([TopicPartition("t", 0, 2)])
        first(reader)
        (row,) = node.get("/api/topics").json["topics"]
        assert (row["reader"], row["reader_is_group"]) == ("alone", False)
        reader.close()


def test_a_sorted_list_has_pages() -> None:
    with console_node() as node:
        for number in range(PER_PAGE + 2):
            node.create(f"t{number:03}")
        node.produce("t050", [record()])
        assert listed(node, sort="-records")[:2] == ["t050", "t000"]
        assert listed(node, sort="-name", page=2) == ["t001", "t000"]
        text = node.get("/topics", sort="-name", page=1).text
        assert "sort=-name&amp;page=2" in text
        assert 'aria-sort="descending"' in text


def test_the_facts_stand_on_top_of_a_topic(node: ConsoleNode) -> None:
    text = node.get("/topics/b").text
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)(?: <small>.*?</small>)?</dd>", text))
    assert {name: facts[name] for name in ("Partitions", "Replicas", "Keeps", "Cleanup")} == {
        "Partitions": "1",
        "Replicas": "1",
        "Keeps": "7 days",
        "Cleanup": "delete",
    }
    found = node.get("/api/topics/b").json
    assert facts["Records"] == str(found["records"]) == str(found["partitions"][0]["end_offset"])
    assert found["bytes"] == found["partitions"][0]["bytes"]


# Changes


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level("INFO", "kpybroker.console")
    return caplog


def test_a_topic_is_deleted_when_its_name_is_typed(node: ConsoleNode, lines: pytest.LogCaptureFixture) -> None:
    node.create("brief", 2)
    for confirm in ("", "brie", "brief2"):
        reply = node.post("/topics/brief/delete", confirm=confirm)
        assert (reply.status, "has to be typed" in reply.json["error"]) == (400, True)
    assert node.get("/api/topics/brief").status == 200
    assert node.post("/topics/brief/delete", confirm="brief").json == {"see": "/topics"}
    assert node.get("/api/topics/brief").status == 404
    assert lines.text.count("User:ANONYMOUS at 127.0.0.1 deleted topic brief with 2 partitions") == 1
    assert node.post("/topics/brief/delete", confirm="brief").status == 404


def test_partitions_are_added(node: ConsoleNode, lines: pytest.LogCaptureFixture) -> None:
    node.create("growing")
    for count, error in (("", "count is missing"), ("1", "INVALID_PARTITIONS"), ("x", "no whole number")):
        reply = node.post("/topics/growing/partitions", count=count)
        assert (reply.status, error in reply.json["error"]) == (400, True), reply
    assert node.post("/topics/growing/partitions", count=4).status == 200
    assert len(node.get("/api/topics/growing").json["partitions"]) == 4
    assert lines.text.count("User:ANONYMOUS at 127.0.0.1 added partitions to topic growing: it has 4") == 1


def test_records_are_deleted_up_to_an_offset_or_all(node: ConsoleNode, lines: pytest.LogCaptureFixture) -> None:
    node.create("aging", 2)
    for partition in (0, 1):
        node.produce("aging", [record()] * 6, partition)

    def starts() -> list[int]:
        return [each["start_offset"] for each in node.get("/api/topics/aging").json["partitions"]]

    address = "/topics/aging/records/delete"
    for values, error in (
        ({}, "before is missing"),
        ({"before": "x"}, "before is no whole number"),
        ({"before": "3"}, "choose the partition"),
        ({"before": "3", "partition": 7}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ({"before": "7", "partition": 0}, "aging-0: OFFSET_OUT_OF_RANGE"),
    ):
        reply = node.post(address, **values)
        assert (reply.status >= 400, error in reply.json["error"]) == (True, True), reply
    assert starts() == [0, 0]
    assert node.post(address, before="3", partition=1).status == 200
    assert starts() == [0, 3]
    assert node.post(address, before="ALL").status == 200
    assert starts() == [6, 6]
    logged = [line.partition("127.0.0.1 ")[2] for line in lines.messages if "deleted" in line]
    assert logged == [
        "deleted the records before offset 3 of partition 1 of topic aging",
        "deleted all records of 2 partitions of topic aging",
    ]


def test_records_of_a_compacted_topic_are_not_deleted(node: ConsoleNode) -> None:
    assert node.post("/topics", name="compacted", configs={"cleanup.policy": "compact"}).status == 200
    reply = node.post("/topics/compacted/records/delete", before="all")
    assert (reply.status, "POLICY_VIOLATION" in reply.json["error"]) == (400, True)
    assert "Kafka refuses that" in node.get("/topics/compacted").text


def test_values_may_be_typed_in_words(node: ConsoleNode, lines: pytest.LogCaptureFixture) -> None:
    configs = "retention.ms=2 days\nsegment.bytes=1 GiB\ncleanup.policy=delete"
    assert node.post("/topics", name="worded", configs=configs).status == 200

    def config(name: str) -> tuple[str, str]:
        found = {each["name"]: each for each in node.get("/api/topics/worded").json["configs"]}
        return found[name]["value"], found[name]["words"]

    assert config("retention.ms") == ("172800000", "2 days")
    assert config("segment.bytes") == ("1073741824", "1 GiB")
    assert node.get("/api/topics/worded").json["retention"] == "2 days"
    assert node.post("/topics/worded/configs", name="retention.bytes", value="1.5 GiB").status == 200
    assert config("retention.bytes") == ("1610612736", "1.5 GiB")
    assert "config retention.bytes of topic worded is set to '1610612736'" in lines.text
    reply = node.post("/topics/worded/configs", name="retention.bytes", value="2 days")
    assert (reply.status, "INVALID_CONFIG" in reply.json["error"]) == (400, True)


def test_kafkas_own_topics_are_not_offered_for_deletion(node: ConsoleNode) -> None:
    found = node.get("/api/topics/__consumer_offsets").json
    assert [found[name] for name in ("may_add_partitions", "may_delete_records", "may_delete")] == [False] * 3


def test_a_cluster_that_keeps_its_topics_says_so() -> None:
    with console_node(kpybroker_console_write_enable="true", delete_topic_enable="false") as node:
        node.create("kept")
        assert f"<code>{OFF}</code>" in node.get("/topics/kept").text
        reply = node.post("/topics/kept/delete", confirm="kept")
        assert "TOPIC_DELETION_DISABLED" in reply.json["error"]
        assert node.get("/api/topics/kept").json["may_delete"] is False


# Configs of nodes


def test_a_config_of_the_node_is_set_while_it_runs(node: ConsoleNode, lines: pytest.LogCaptureFixture) -> None:
    def config(name: str) -> tuple[str, str, str]:
        found = {each["name"]: each for each in node.get("/api/configs").json["configs"]}
        row = found.get(name, {"value": "", "words": "", "source": ""})
        return row["value"], row["words"], row["source"]

    name = "log.retention.ms"
    assert node.post("/configs", name=name, value="2 days").json == {"see": "/configs"}
    assert config(name) == ("172800000", "2 days", "this broker")
    assert node.post("/configs", name=name).status == 200
    assert config(name) == ("", "", "")
    assert node.post("/configs", name=name, value="3 days", everywhere=True).status == 200
    assert config(name) == ("259200000", "3 days", "the default of all brokers")
    assert node.post("/configs", name=name, remove=True, everywhere=True).status == 200
    assert [line.partition("127.0.0.1: ")[2] for line in lines.messages if name in line] == [
        f"config {name} of node 1 is set to '172800000'",
        f"config {name} of node 1 is removed",
        f"config {name} of all brokers is set to '259200000'",
        f"config {name} of all brokers is removed",
    ]
    for wrong, error in (
        ({"value": "1"}, "name is missing"),
        ({"name": name, "value": "x"}, "Not a number of type LONG"),
        ({"name": "node.id", "value": "7"}, "INVALID_REQUEST"),
    ):
        reply = node.post("/configs", **wrong)
        assert (reply.status, error in reply.json["error"]) == (400, True), reply


def test_a_secret_is_in_no_line(node: ConsoleNode, lines: pytest.LogCaptureFixture) -> None:
    names = node.get("/api/configs", all=1).json
    secret = "ssl.key.password"
    assert secret not in names["dynamic"]
    node.post("/configs", name=secret, value="hush-hush")
    node.post("/configs", name=f"listener.name.plaintext.{secret}", value="hush-hush")
    assert "hush-hush" not in lines.text
