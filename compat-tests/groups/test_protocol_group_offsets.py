"""Committed offsets, request by request: committing, fetching and forgetting them, as a member or without being one."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kpywire.messages.offset_commit import OffsetCommitRequest
from support.group_requests import (
    Committed,
    Member,
    Protocol,
    commit,
    committing,
    coordinator_ready,
    delete_groups,
    delete_offsets,
    describe,
    fetching,
    fetching_one,
    listed,
    offsets,
    offsets_in,
    stable_member,
)
from support.raw_client import RawClient
from support.raw_requests import NO_ID, UNKNOWN_ID, create, deletion, wait_until_gone
from support.waiting import eventually

NOTHING = (-1, -1, "", error_codes.NONE)
BY_NAME = range(2, 10)


@pytest.fixture
def group(raw: RawClient) -> str:
    """A group that nobody has used, whose coordinator is ready."""
    name = f"offsets-{secrets.token_hex(4)}"
    coordinator_ready(raw, name)
    return name


@pytest.fixture
def other(raw: RawClient, group: str) -> str:
    name = f"{group}-other"
    coordinator_ready(raw, name)
    return name


@pytest.fixture
def topic_id(raw: RawClient, unused_topic: Callable[[], str]) -> tuple[str, bytes]:
    """A topic of three partitions and its id."""
    name = unused_topic()
    return name, create(raw, name, 3)


# Committing


@pytest.mark.parametrize("version", BY_NAME)
def test_committed_offsets_are_found(raw: RawClient, group: str, topic_id: tuple[str, bytes], version: int) -> None:
    topic, _ = topic_id
    codes = commit(raw, group, topic, (0, 5, "here"), (2, 1 << 40, None), version=version)
    assert codes == {0: error_codes.NONE, 2: error_codes.NONE}
    epoch = 0 if version >= 6 else -1
    assert offsets(raw, group) == {topic: {0: (5, epoch, "here", 0), 2: (1 << 40, epoch, "", 0)}}
    assert offsets(raw, group, {topic: [1, 0, 77], "no-such-topic": [0]}) == {
        topic: {1: NOTHING, 0: (5, epoch, "here", 0), 77: NOTHING}, "no-such-topic": {0: NOTHING}
    }  # fmt: skip
    commit(raw, group, topic, (0, 3, "back"), version=version)
    assert offsets(raw, group)[topic][0] == (3, epoch, "back", 0)


def test_topics_go_by_their_ids_since_version_10(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, identity = topic_id
    assert commit(raw, group, identity, (0, 7, "x"), (9, 1, ""), version=10) == {
        0: error_codes.NONE, 9: error_codes.UNKNOWN_TOPIC_OR_PARTITION
    }  # fmt: skip
    for unknown in (UNKNOWN_ID, NO_ID):
        assert commit(raw, group, unknown, (0, 7, ""), version=10) == {0: error_codes.UNKNOWN_TOPIC_ID}
    assert offsets(raw, group) == {topic: {0: (7, 0, "x", 0)}}
    asked = {UNKNOWN_ID: [0], identity: [0, 1], NO_ID: [2]}
    (answer,) = raw.call(fetching((group, asked)), 10).groups
    assert [each.topic_id for each in answer.topics] == [identity, UNKNOWN_ID, NO_ID]
    unknown_code = error_codes.UNKNOWN_TOPIC_ID
    assert [[*found.values()] for found in offsets_in_order(answer.topics)] == [
        [(7, 0, "x", 0), NOTHING], [(-1, -1, "", unknown_code)], [(-1, -1, "", unknown_code)]
    ]  # fmt: skip
    (answer,) = raw.call(fetching((group, None)), 10).groups
    assert [(each.topic_id, [part.committed_offset for part in each.partitions]) for each in answer.topics] == [
        (identity, [7])
    ]


def offsets_in_order(topics: Sequence[Any]) -> list[dict[int, Any]]:
    return [offsets_in([topic]).popitem()[1] for topic in topics]


@pytest.mark.parametrize("version", BY_NAME)
def test_missing_topics_and_partitions_are_refused_first(
    raw: RawClient, group: str, topic_id: tuple[str, bytes], version: int
) -> None:
    topic, _ = topic_id
    mixed: dict[str, list[Committed]] = {"no-such-topic": [(0, 1, ""), (4, 1, "")], topic: [(0, 1, ""), (3, 1, "")]}
    answer = raw.call(committing(group, mixed, version), version)
    assert [(each.name, [(p.partition_index, p.error_code) for p in each.partitions]) for each in answer.topics] == [
        ("no-such-topic", [(0, 3), (4, 3)]), (topic, [(3, 3), (0, 0)])
    ]  # fmt: skip
    unknown_group = {"no-such-topic": [(0, 1, "")]}
    answer = raw.call(committing("nobody", unknown_group, version, member_id="nobody", generation=4), version)
    assert answer.topics[0].partitions[0].error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert raw.call(OffsetCommitRequest(group_id=group + "-", member_id="", topics=[]), version).topics == []
    assert describe(raw, group + "-").group_state == "Dead"


def test_metadata_have_a_limit_for_each_partition(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    assert commit(raw, group, topic, (0, 1, "x" * 4096), (1, 1, "x" * 4097), (2, 1, "ü" * 4096)) == {
        0: error_codes.NONE, 1: error_codes.OFFSET_METADATA_TOO_LARGE, 2: error_codes.NONE
    }  # fmt: skip
    assert set(offsets(raw, group)[topic]) == {0, 2}


@pytest.mark.parametrize("version", BY_NAME)
def test_a_commit_of_a_generation_in_an_empty_group_is_refused(
    raw: RawClient, group: str, topic_id: tuple[str, bytes], version: int
) -> None:
    topic, _ = topic_id

    def code(name: str, member_id: str, generation: int, instance_id: str | None = None) -> int:
        request = committing(
            name,
            {topic: [(0, 1, "")]},
            version,
            member_id=member_id,
            generation=generation,
            instance_id=instance_id,
        )
        return int(raw.call(request, version).topics[0].partitions[0].error_code)

    missing = error_codes.GROUP_ID_NOT_FOUND if version >= 9 else error_codes.ILLEGAL_GENERATION
    assert code(group, "nobody", 3) == missing
    member = Member(raw, group)
    member.join()
    assert code(group, member.id, 1) == error_codes.REBALANCE_IN_PROGRESS
    member.sync()
    assert code(group, member.id, 1) == error_codes.NONE
    assert code(group, member.id, 2) == error_codes.ILLEGAL_GENERATION
    assert code(group, member.id, 0) == error_codes.ILLEGAL_GENERATION
    assert code(group, "nobody", 1) == error_codes.UNKNOWN_MEMBER_ID
    assert code(group, "", -1) == error_codes.UNKNOWN_MEMBER_ID
    if version >= 7:
        assert code(group, member.id, 1, "instance") == error_codes.UNKNOWN_MEMBER_ID
    member.leave()
    assert code(group, member.id, 1) == error_codes.UNKNOWN_MEMBER_ID
    assert code(group, "", -1) == error_codes.NONE


def test_a_fenced_static_member_cannot_commit(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    before = stable_member(raw, group, instance_id="i")
    after = Member(raw, group, "i")
    after.join()
    assert before.commit(topic, (0, 1, "")) == {0: error_codes.FENCED_INSTANCE_ID}
    assert after.commit(topic, (0, 2, "")) == {0: error_codes.NONE}


def test_a_commit_makes_a_group_that_is_listed_and_deleted(
    raw: RawClient, group: str, topic_id: tuple[str, bytes]
) -> None:
    topic, _ = topic_id
    commit(raw, group, topic, (0, 1, ""))
    described = describe(raw, group)
    assert (described.error_code, described.group_state, described.protocol_type) == (0, "Empty", "")
    assert [(e.protocol_type, e.group_state) for e in listed(raw) if e.group_id == group] == [("", "Empty")]
    assert delete_groups(raw, group) == {group: error_codes.NONE}
    assert offsets(raw, group) == {}
    assert describe(raw, group).group_state == "Dead"


def test_the_empty_group_is_one_like_any_other(raw: RawClient, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    coordinator_ready(raw, "")
    assert commit(raw, "", topic, (1, 9, "e")) == {1: error_codes.NONE}
    assert offsets(raw, "", {topic: [1]}) == {topic: {1: (9, 0, "e", 0)}}
    assert describe(raw, "").group_state == "Empty"
    assert "" in {each.group_id for each in listed(raw)}
    assert delete_offsets(raw, "", {topic: [1]}).error_code == error_codes.INVALID_GROUP_ID
    assert delete_groups(raw, "") == {"": error_codes.NONE}
    assert delete_groups(raw, "") == {"": error_codes.GROUP_ID_NOT_FOUND}


# Fetching


@pytest.mark.parametrize("version", range(1, 8))
def test_offsets_of_one_group_are_fetched(
    raw: RawClient, group: str, topic_id: tuple[str, bytes], version: int
) -> None:
    topic, _ = topic_id
    commit(raw, group, topic, (0, 5, "m"), (1, 6, ""))
    request = fetching_one(group, {topic: [1, 0, 2], "no-such-topic": [0]})
    if version >= 7:
        request.require_stable = True
    answer = raw.call(request, version)
    assert answer.error_code == error_codes.NONE
    epoch = 0 if version >= 5 else -1
    assert [each.name for each in answer.topics] == [topic, "no-such-topic"]
    assert [*offsets_in(answer.topics)[topic].items()] == [
        (1, (6, epoch, "", 0)),
        (0, (5, epoch, "m", 0)),
        (2, NOTHING),
    ]
    assert offsets_in(answer.topics)["no-such-topic"] == {0: NOTHING}
    unknown_group = raw.call(fetching_one("nobody-" + group, {topic: [0]}), version)
    assert (unknown_group.error_code, offsets_in(unknown_group.topics)) == (error_codes.NONE, {topic: {0: NOTHING}})
    if version >= 2:
        everything = raw.call(fetching_one(group, None), version)
        assert offsets_in(everything.topics) == {topic: {0: (5, epoch, "m", 0), 1: (6, epoch, "", 0)}}
        assert raw.call(fetching_one("nobody-" + group, None), version).topics == []
    assert raw.call(fetching_one(group, {}), version).topics == []


@pytest.mark.parametrize("version", [8, 9])
def test_offsets_of_several_groups_are_fetched_in_their_order(
    raw: RawClient, group: str, other: str, topic_id: tuple[str, bytes], version: int
) -> None:
    topic, _ = topic_id
    commit(raw, group, topic, (0, 5, "m"))
    commit(raw, other, topic, (1, 6, ""))
    unknown_group = "nobody-" + group
    asked: list[tuple[str, dict[str, list[int]] | None]] = [
        (other, None),
        (unknown_group, None),
        (group, {topic: [0, 1]}),
        (unknown_group, {topic: [0]}),
        (other, {topic: []}),
    ]
    answers = raw.call(fetching(*asked, require_stable=True), version).groups
    assert [(each.group_id, each.error_code, offsets_in(each.topics)) for each in answers] == [
        (other, 0, {topic: {1: (6, 0, "", 0)}}),
        (unknown_group, 0, {}),
        (group, 0, {topic: {0: (5, 0, "m", 0), 1: NOTHING}}),
        (unknown_group, 0, {topic: {0: NOTHING}}),
        (other, 0, {topic: {}}),
    ]
    assert raw.call(fetching(), version).groups == []


def test_a_topic_is_asked_for_as_often_as_it_is_named(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    commit(raw, group, topic, (0, 5, ""))
    request = fetching((group, {topic: [0, 0]}))
    request.groups[0].topics = 2 * (request.groups[0].topics or [])
    (answer,) = raw.call(request, 8).groups
    assert [[part.committed_offset for part in each.partitions] for each in answer.topics] == [[5, 5], [5, 5]]


# Forgetting


def test_offsets_are_deleted(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    commit(raw, group, topic, (0, 5, ""), (1, 6, ""))
    answer = delete_offsets(raw, group, {topic: [0, 9, 2], "no-such-topic": [1]})
    assert answer.error_code == error_codes.NONE
    assert [(each.name, [(p.partition_index, p.error_code) for p in each.partitions]) for each in answer.topics] == [
        (topic, [(9, 3), (0, 0), (2, 0)]), ("no-such-topic", [(1, 3)])
    ]  # fmt: skip
    assert offsets(raw, group) == {topic: {1: (6, 0, "", 0)}}
    for topics in ({topic: [0]}, {"no-such-topic": [0]}, {}):
        answer = delete_offsets(raw, "nobody-" + group, topics)
        assert (answer.error_code, answer.topics) == (error_codes.GROUP_ID_NOT_FOUND, [])
    assert delete_offsets(raw, group, {}).topics == []


def subscription(*topics: str) -> bytes:
    return b"\0\0" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def test_offsets_of_a_subscribed_topic_are_not_deleted(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    unread = topic + "-unread"
    create(raw, unread)
    member = stable_member(raw, group, protocols=[Protocol("range", subscription(topic))])
    assert member.commit(topic, (0, 1, "")) == member.commit(unread, (0, 1, "")) == {0: 0}
    answer = delete_offsets(raw, group, {topic: [0], unread: [0]})
    assert [(each.name, each.partitions[0].error_code) for each in answer.topics] == [
        (topic, error_codes.GROUP_SUBSCRIBED_TO_TOPIC), (unread, error_codes.NONE)
    ]  # fmt: skip
    assert set(offsets(raw, group)) == {topic}
    connected = stable_member(raw, group + "-connect", protocol_type="connect")
    connected.commit(topic, (0, 1, ""))
    answer = delete_offsets(raw, connected.group, {topic: [0]})
    assert (answer.error_code, answer.topics) == (error_codes.NON_EMPTY_GROUP, [])
    raw.call(deletion(unread), 6)


def test_a_deleted_topic_takes_its_offsets_with_it(raw: RawClient, group: str, topic_id: tuple[str, bytes]) -> None:
    topic, _ = topic_id
    doomed = topic + "-doomed"
    create(raw, doomed, 2)
    commit(raw, group, doomed, (0, 1, ""), (1, 1, ""))
    commit(raw, group, topic, (0, 1, ""))
    assert raw.call(deletion(doomed), 6).responses[0].error_code == error_codes.NONE
    wait_until_gone(raw, doomed)
    eventually(lambda: set(offsets(raw, group)) == {topic}, "the end of the offsets of a deleted topic")
    create(raw, doomed, 2)
    assert offsets(raw, group, {doomed: [0]}) == {doomed: {0: NOTHING}}
    raw.call(deletion(doomed), 6)
