"""Dead letters on a whole node (KIP-1191): what a group rejects or counts out is written to its dead-letter topic."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode, start
from test_share_node import REJECT, RELEASE, SETTINGS, Group, Member

from kpybroker.requests.serving.share import dead_letter_writer, producing
from kpywire import error_codes
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.record import Record, read_records
from support.raw_client import RawClient, connect
from support.raw_requests import SET, changed, configs_set, create, deletion, incremental_alteration
from support.waiting import eventually

TOPIC = "dlq.g"
TO_TOPIC = {"errors_deadletterqueue_topic_name": TOPIC}
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
TOPIC_RESOURCE, CLUSTER_RESOURCE = 2, 4
PREFIX = "__dlq.errors."


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path, **SETTINGS, errors_deadletterqueue_auto_create_topics_enable="true")
    yield running
    running.stop()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with connect(f"127.0.0.1:{node.port}") as connected:
        yield connected


def letters(client: RawClient, partition: int = 0) -> list[Record]:
    """All records of a partition of the dead-letter topic."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
    (topic,) = client.call(asked, 12).topics
    if topic.error_code:
        return []
    part = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=TOPIC, partitions=[part])])
    (found,) = client.call(request, 12).responses[0].partitions
    return list(read_records(bytes(found.records or b"")))


def wait_for_letters(client: RawClient, count: int) -> list[Record]:
    eventually(lambda: len(letters(client)) >= count, f"{count} dead letters", every_s=0.05)
    return letters(client)


def named(record: Record) -> dict[str, str]:
    return {key.removeprefix(PREFIX): (value or b"").decode() for key, value in record.headers}


def enabled_topic(client: RawClient, **configs: str) -> None:
    create(client, TOPIC, errors_deadletterqueue_group_enable="true", **configs)


def test_rejected_records_are_written_to_a_topic_that_is_made(client: RawClient) -> None:
    group = Group(client, **TO_TOPIC)
    group.produce("a", "b", "c")
    member = Member(client, group.topic_id, "m")
    assert member.got() == [(0, 2, 1)]
    assert member.acknowledge((0, 2, [REJECT, RELEASE, REJECT])) == error_codes.NONE
    first, second = wait_for_letters(client, 2)
    assert named(first) == {
        "topic": "t",
        "partition": "0",
        "offset": "0",
        "group": "g",
        "delivery.count": "1",
        "message": "Offset rejected by client.",
    }
    assert (first.key, first.value) == (second.key, second.value) == (None, None)
    assert named(second)["offset"] == "2"
    assert configs_set(client, TOPIC_RESOURCE, TOPIC) == {**ENABLED, "message.timestamp.type": "CreateTime"}
    assert member.got() == [(1, 1, 2)]
    eventually(lambda: group.lag() == 1, "the second write")


def set_of_cluster(client: RawClient, name: str, value: str) -> None:
    changed(client, incremental_alteration((CLUSTER_RESOURCE, "", [(name, SET, value)])), 1)
    eventually(lambda: configs_set(client, CLUSTER_RESOURCE, "").get(name) == value, name)


def test_records_that_are_counted_out_when_a_session_ends_are_copied(node: RunningNode, client: RawClient) -> None:
    enabled_topic(client)
    group = Group(
        client,
        **TO_TOPIC,
        errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit="2",
    )
    group.produce("a", "b")
    for count in (1, 2):
        with connect(f"127.0.0.1:{node.port}") as lost:
            assert Member(lost, group.topic_id, f"lost{count}").got() == [(0, 1, count)]
    found = wait_for_letters(client, 2)
    assert [record.value for record in found] == [b"a", b"b"]
    assert {named(record)["message"] for record in found} == {"Offset delivery count exceeded the threshold."}
    assert {named(record)["delivery.count"] for record in found} == {"2"}
    eventually(lambda: group.lag() == 0, "the records to be archived")
    eventually(lambda: not node.node.broker.share_leader.led, "the share partition to be given up")


@pytest.mark.parametrize("why", ["not enabled", "another name", "not there"])
def test_records_are_archived_without_dead_letters_where_the_topic_may_not_have_them(
    node: RunningNode, client: RawClient, why: str
) -> None:
    if why == "not enabled":
        create(client, TOPIC)
    elif why == "another name":
        set_of_cluster(client, "errors.deadletterqueue.topic.name.prefix", "dead.")
    else:
        set_of_cluster(client, "errors.deadletterqueue.auto.create.topics.enable", "false")
    group = Group(client, **TO_TOPIC)
    group.produce("a")
    member = Member(client, group.topic_id, "m")
    assert member.got() == [(0, 0, 1)]
    assert member.acknowledge((0, 0, [REJECT])) == error_codes.NONE
    eventually(lambda: group.lag() == 0, "the record to be archived")
    assert letters(client) == []
    counts: Any = node.node.broker.share_leader.metrics.dead_letters["g"]
    assert (counts.written, counts.given_up, counts.failed) == (0, 1, 0)


@pytest.mark.parametrize(("failures", "counts"), [(4, (1, 5, 0, 0)), (9, (0, 5, 1, 1))])
def test_a_dead_letter_that_cannot_be_written_is_tried_five_times(
    node: RunningNode,
    client: RawClient,
    monkeypatch: pytest.MonkeyPatch,
    failures: int,
    counts: tuple[int, int, int, int],
) -> None:
    monkeypatch.setattr("kpybroker.machines.share.dead_letters.FIRST_PAUSE_MS", 10)
    left = failures

    def failing(broker: Any, topic: Any, index: int, batch: bytes, done: Callable[[int], object]) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            producing.produce(broker, topic, index, batch, done)
        else:
            done(error_codes.NOT_ENOUGH_REPLICAS)

    monkeypatch.setattr(f"{dead_letter_writer.__name__}.produce", failing)
    enabled_topic(client)
    group = Group(client, **TO_TOPIC)
    group.produce("a")
    member = Member(client, group.topic_id, "m")
    assert member.got() == [(0, 0, 1)]
    assert member.acknowledge((0, 0, [REJECT])) == error_codes.NONE
    eventually(lambda: group.lag() == 0, "the record to be archived")
    found: Any = node.node.broker.share_leader.metrics.dead_letters["g"]
    assert (found.written, found.produced, found.failed, found.given_up) == counts
    assert len(letters(client)) == counts[0]


def test_many_rejected_records_are_written_in_few_batches_and_all_settled(client: RawClient) -> None:
    enabled_topic(client)
    group = Group(client, **TO_TOPIC)
    group.produce(*(str(number) for number in range(900)))
    member = Member(client, group.topic_id, "m")
    assert member.got(max_records=2_000) == [(0, 899, 1)]
    assert member.acknowledge((0, 899, [REJECT, RELEASE] * 450)) == error_codes.NONE
    found = wait_for_letters(client, 450)
    assert [int(named(record)["offset"]) for record in found] == list(range(0, 900, 2))
    eventually(lambda: group.lag() == 450, "the second writes")


def rejected(group: Group, member: Member, offset: int) -> None:
    """A record comes, is rejected, and is archived."""
    group.produce("a")
    assert member.got() == [(offset, offset, 1)]
    assert member.acknowledge((offset, offset, [REJECT])) == error_codes.NONE
    eventually(lambda: group.lag() == 0, "the record to be archived")


def counts_of(node: RunningNode) -> tuple[int, int]:
    """The dead letters that were written, and those that were given up."""
    found: Any = node.node.broker.share_leader.metrics.dead_letters["g"]
    return found.written, found.given_up


def deleted(client: RawClient) -> None:
    (answer,) = client.call(deletion(TOPIC), 6).responses
    assert answer.error_code == error_codes.NONE
    eventually(lambda: letters(client) == [], "the topic to be gone")


def allowed(client: RawClient, value: str) -> None:
    name = "errors.deadletterqueue.group.enable"
    changed(client, incremental_alteration((TOPIC_RESOURCE, TOPIC, [(name, SET, value)])), 1)
    eventually(lambda: configs_set(client, TOPIC_RESOURCE, TOPIC)[name] == value, name)


@pytest.mark.parametrize("end", ["deleted", "closed"])
def test_dead_letters_are_given_up_with_one_line_while_their_topic_may_not_have_them(
    node: RunningNode, client: RawClient, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    set_of_cluster(client, "errors.deadletterqueue.auto.create.topics.enable", "false")
    enabled_topic(client)
    group = Group(client, **TO_TOPIC)
    member = Member(client, group.topic_id, "m")
    rejected(group, member, 0)
    for twice, first in enumerate((1, 4)):
        deleted(client) if end == "deleted" else allowed(client, "false")
        rejected(group, member, first)
        rejected(group, member, first + 1)
        assert counts_of(node) == (1 + twice, 2 + 2 * twice)
        lines = [each.getMessage() for each in caplog.records if "without dead letters" in each.getMessage()]
        assert len(lines) == 1 + twice, "once for each time"
        assert f"Share group g: records of t-0 from offset {first} to {first} are archived without" in lines[-1]
        enabled_topic(client) if end == "deleted" else allowed(client, "true")
        rejected(group, member, first + 2)
    assert counts_of(node) == (3, 4)
    kept = [6] if end == "deleted" else [0, 3, 6]
    assert [int(named(record)["offset"]) for record in letters(client)] == kept


def test_a_deleted_topic_is_made_again_for_dead_letters_that_come_and_those_that_wait(
    node: RunningNode, client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kpybroker.machines.share.dead_letters.FIRST_PAUSE_MS", 10)
    enabled_topic(client)
    group = Group(client, **TO_TOPIC)
    member = Member(client, group.topic_id, "m")
    rejected(group, member, 0)
    deleted(client)
    rejected(group, member, 1)
    assert [int(named(record)["offset"]) for record in wait_for_letters(client, 1)] == [1]

    left: list[Any] = []

    def held(*asked: Any) -> None:
        left.append(asked)
        monkeypatch.setattr(f"{dead_letter_writer.__name__}.produce", producing.produce)

    monkeypatch.setattr(f"{dead_letter_writer.__name__}.produce", held)
    group.produce("a")
    assert member.got() == [(2, 2, 1)]
    assert member.acknowledge((2, 2, [REJECT])) == error_codes.NONE
    eventually(lambda: left, "the batch")
    deleted(client)
    node.call(lambda: producing.produce(*left[0]))
    eventually(lambda: group.lag() == 0, "the record to be archived")
    assert [int(named(record)["offset"]) for record in wait_for_letters(client, 1)] == [2]
    assert counts_of(node) == (3, 0)
