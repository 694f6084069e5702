"""Requests to brokers before Kafka 3.0 are made in the newer form, and their answers come in it."""

from typing import Any

import pytest

from kpybroker.client import older_forms
from kpywire import codec
from kpywire.errors import UnsupportedVersion
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)


def sent(request: Any, version: int) -> Any:
    """A request as a broker gets it in a version."""
    return codec.decode(type(request), version, codec.encode(older_forms.asked(request, version), version))


def test_one_coordinator_is_found() -> None:
    asked = sent(FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]), 2)
    assert (asked.key, asked.key_type) == ("t", 1)
    answer = FindCoordinatorResponse(error_code=0, error_message=None, node_id=3, host="h", port=9)
    (found,) = older_forms.answered(asked, answer).coordinators
    assert (found.key, found.node_id, found.host, found.port, found.error_code) == ("t", 3, "h", 9, 0)


def test_several_coordinators_cannot_be_asked_for() -> None:
    with pytest.raises(UnsupportedVersion):
        sent(FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]), 3)


@pytest.mark.parametrize(("version", "is_stable"), [(5, False), (7, True)])
def test_the_offsets_of_one_group_are_fetched(version: int, is_stable: bool) -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0, 2])]
    wanted = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True)
    asked = sent(wanted, version)
    assert (asked.group_id, asked.require_stable) == ("g", is_stable)
    assert [(each.name, each.partition_indexes) for each in asked.topics] == [("t", [0, 2])]
    every = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert sent(every, version).topics is None
    part = OffsetFetchResponsePartition(
        partition_index=2, committed_offset=7, committed_leader_epoch=4, metadata="m", error_code=0
    )
    answer = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[part])], error_code=5)
    (group,) = older_forms.answered(asked, answer).groups
    assert (group.group_id, group.error_code) == ("g", 5)
    (found,) = group.topics[0].partitions
    assert group.topics[0].name == "t"
    assert (found.partition_index, found.committed_offset, found.committed_leader_epoch, found.metadata) == (
        2,
        7,
        4,
        "m",
    )


def test_topics_are_deleted_by_their_names() -> None:
    wanted = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], topic_names=["t"], timeout_ms=5)
    asked = sent(wanted, 3)
    assert (asked.topic_names, asked.timeout_ms) == (["t"], 5)


def test_other_requests_are_as_they_are() -> None:
    request, answer = ListGroupsRequest(), object()
    assert older_forms.asked(request, 1) is request
    assert older_forms.answered(request, answer) is answer
