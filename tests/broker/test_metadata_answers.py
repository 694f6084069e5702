"""Answers about topics are kept encoded: each is what encoding it again gives, whatever changed meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from running_node import RunningNode, start

from kpybroker.requests.handlers.metadata import STEP_ANSWERS, STEP_TOPICS, MetadataTopics
from kpybroker.requests.serving.topic_answers import MOST_FORMS, TopicAnswers
from kpybroker.runtime.calls.steps import at_once
from kpywire import error_codes
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kpywire.uuid import ZERO_UUID
from support.raw_client import RawClient

VERSIONS = (0, 1, 8, 9, 12, 13)
METADATA = 3
DESCRIBE = 75


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path, auto_create_topics_enable="false")
    yield running
    running.stop()


@pytest.fixture
def client(node: RunningNode) -> Iterator[RawClient]:
    with RawClient(node.port) as client:
        yield client


def create(client: RawClient, name: str, partitions: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False), 7)
    assert answer.topics[0].error_code == error_codes.NONE


def delete(client: RawClient, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=10_000)
    assert client.call(request, 6).responses[0].error_code == error_codes.NONE


def ask(client: RawClient, version: int, names: list[str] | None, *, operations: bool = False) -> Any:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    if version == 0 and topics is None:
        topics = []
    return client.call(MetadataRequest(topics=topics, include_topic_authorized_operations=operations), version)


def counted_errors(node: RunningNode, api_key: int) -> dict[int, int]:
    dispatcher = node.node.dispatcher
    assert dispatcher is not None
    return node.call(lambda: dict(dispatcher.counters[api_key].error_codes))


def partitions_of(client: RawClient, version: int) -> dict[str, int]:
    return {topic.name: len(topic.partitions) for topic in ask(client, version, None).topics}


def test_kept_topic_answers_equal_newly_encoded_ones(client: RawClient) -> None:
    for name, partitions in (("a", 1), ("b", 20)):
        create(client, name, partitions)
    for version in VERSIONS:
        for operations in (False, True) if version >= 8 else (False,):
            fresh = ask(client, version, None, operations=operations)
            kept = ask(client, version, None, operations=operations)
            assert fresh == kept
            assert [topic.name for topic in kept.topics] == ["a", "b"]
            assert [[each.partition_index for each in topic.partitions] for topic in kept.topics] == [
                [0],
                list(range(20)),
            ]
            assert all((topic.topic_authorized_operations > 0) is operations for topic in kept.topics)


def described(client: RawClient, limit: int, names: list[str] | None = None) -> Iterator[Any]:
    """Every page."""
    topics = [TopicRequest(name=name) for name in names or ()]
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit)
        if cursor is not None:
            request.cursor = DescribeTopicPartitionsRequestCursor(
                topic_name=cursor.topic_name, partition_index=cursor.partition_index
            )
        page = client.call(request, 0)
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def indexes_by_name(pages: Iterator[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for page in pages:
        for topic in page.topics:
            found.setdefault(topic.name, []).extend(each.partition_index for each in topic.partitions)
    return found


def test_pages_of_descriptions_are_the_same_when_they_are_kept_and_change_with_the_topics(client: RawClient) -> None:
    for name, partitions in (("a", 1), ("b", 20), ("c", 150), ("d", 2)):
        create(client, name, partitions)
    whole = {"a": [0], "b": list(range(20)), "c": list(range(150)), "d": [0, 1]}
    for limit in (1000, 100, 7, 1):
        pages = list(described(client, limit))
        assert indexes_by_name(iter(pages)) == whole
        assert all(sum(len(topic.partitions) for topic in page.topics) <= limit for page in pages)
        assert list(described(client, limit)) == pages
    more = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in (("b", 21), ("c", 151))]
    client.call(CreatePartitionsRequest(topics=more, timeout_ms=10_000, validate_only=False), 3)
    delete(client, "d")
    changed = {"a": [0], "b": list(range(21)), "c": list(range(151))}
    for limit in (1000, 7):
        assert indexes_by_name(described(client, limit)) == changed


def test_descriptions_of_what_is_not_there_are_counted_as_errors(node: RunningNode, client: RawClient) -> None:
    create(client, "known", 1)
    for _ in range(2):
        (page,) = described(client, 10, ["unknown", "no topic", "known"])
        assert [(topic.name, topic.error_code) for topic in page.topics] == [
            ("known", error_codes.NONE),
            ("no topic", error_codes.INVALID_TOPIC_EXCEPTION),
            ("unknown", error_codes.UNKNOWN_TOPIC_OR_PARTITION),
        ]
    assert counted_errors(node, DESCRIBE) == {
        error_codes.UNKNOWN_TOPIC_OR_PARTITION: 2,
        error_codes.INVALID_TOPIC_EXCEPTION: 2,
    }


def test_answers_are_kept_in_few_versions_only() -> None:
    answers = TopicAnswers()
    for version in range(100):
        answers.of(MetadataResponse, version).topics[b"id"] = b"a topic"
    assert answers.of(MetadataResponse, 99).topics == {b"id": b"a topic"}
    assert sum(b"id" in answers.of(MetadataResponse, version).topics for version in range(99, 0, -1)) == MOST_FORMS


def test_a_changed_topic_is_in_metadata_answers_of_every_version_at_once(client: RawClient) -> None:
    create(client, "grows", 1)
    assert {version: partitions_of(client, version) for version in VERSIONS} == {
        version: {"grows": 1} for version in VERSIONS
    }
    more = CreatePartitionsTopic(name="grows", count=3, assignments=None)
    client.call(CreatePartitionsRequest(topics=[more], timeout_ms=10_000, validate_only=False), 3)
    create(client, "other", 2)
    assert {version: partitions_of(client, version) for version in VERSIONS} == {
        version: {"grows": 3, "other": 2} for version in VERSIONS
    }
    delete(client, "grows")
    assert {version: partitions_of(client, version) for version in VERSIONS} == {
        version: {"other": 2} for version in VERSIONS
    }


def test_a_topic_made_again_under_its_name_is_answered_with_its_new_id(client: RawClient) -> None:
    create(client, "again", 1)
    before = ask(client, 12, ["again"]).topics[0]
    delete(client, "again")
    create(client, "again", 2)
    after = ask(client, 12, ["again"]).topics[0]
    assert after.topic_id != before.topic_id
    assert len(after.partitions) == 2
    gone = client.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=before.topic_id, name=None)]), 12)
    assert gone.topics[0].error_code == error_codes.UNKNOWN_TOPIC_ID


def test_errors_of_topics_stand_beside_what_is_kept_and_are_counted(node: RunningNode, client: RawClient) -> None:
    create(client, "known", 1)
    for _ in range(2):
        answer = ask(client, 12, ["known", "unknown", "no topic"])
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("known", error_codes.NONE),
            ("unknown", error_codes.UNKNOWN_TOPIC_OR_PARTITION),
            ("no topic", error_codes.INVALID_TOPIC_EXCEPTION),
        ]
    assert counted_errors(node, METADATA) == {
        error_codes.UNKNOWN_TOPIC_OR_PARTITION: 2,
        error_codes.INVALID_TOPIC_EXCEPTION: 2,
    }


def test_answers_that_are_made_anew_are_fewer_in_a_step_than_those_that_are_kept() -> None:
    topics = object.__new__(MetadataTopics)
    topics._kept = {}
    made: list[int] = []

    def known(topic: Any) -> bytes:
        made.append(topic.id)
        topics._kept[topic.id] = bytes([topic.id])
        return topics._kept[topic.id]

    topics.known = known  # type: ignore[method-assign]
    all_of_them: list[Any] = [SimpleNamespace(id=number) for number in range(STEP_TOPICS)]
    whole = [bytes([number]) for number in range(STEP_TOPICS)]
    before = 0
    steps = topics.all(all_of_them)
    for _ in range(STEP_TOPICS // STEP_ANSWERS):
        next(steps)
        assert len(made) - before == STEP_ANSWERS
        before = len(made)
    assert at_once(steps) == whole
    again = topics.all(all_of_them)
    next(again)
    assert at_once(again) == whole
    assert len(made) == STEP_TOPICS
