"""Large requests and answers are walked in steps, wherever their many elements stand."""

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.config.alter import MOST_CONFIGS, merge, settle_legacy, without
from kpybroker.config.describe import _chosen
from kpybroker.machines.answered_errors import names_no_controller
from kpybroker.machines.controller.reassignments import alter_partition_reassignments, list_partition_reassignments
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import pack
from kpybroker.machines.groups.offsets.offset_fetch import fetch_offsets
from kpybroker.requests.guards.controllers import _named_once
from kpybroker.requests.handlers.describe_log_dirs import handle as describe_log_dirs
from kpybroker.requests.handlers.list_offsets import _named_twice
from kpybroker.requests.handlers.streams_group_heartbeat import _why_names_are_wrong
from kpybroker.requests.serving.repeated_partitions import one_of_each_in_steps
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, distinct, each, in_blocks
from kpywire import error_codes
from kpywire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from kpywire.messages.describe_configs import DescribeConfigsResourceResult
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kpywire.messages.offset_fetch import OffsetFetchRequestGroup
from kpywire.uuid import ZERO_UUID

MANY = 20_000
MOST_IN_A_STEP = 1024


def finished(work: Generator[Any, Any, Any]) -> tuple[int, Any]:
    """The number of steps, and the result."""
    steps = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return steps, end.value
        steps += 1


def offsets_of(topics: int, partitions: int) -> Generator[Any, Any, Any]:
    named = [
        ListOffsetsTopic(
            name=str(number), partitions=[ListOffsetsPartition(partition_index=index) for index in range(partitions)]
        )
        for number in range(topics)
    ]
    return _named_twice(ListOffsetsRequest(topics=named))


def reassigned(topics: int, partitions: int) -> Generator[Any, Any, Any]:
    named = [
        ReassignableTopic(
            name=str(number), partitions=[ReassignablePartition(partition_index=index) for index in range(partitions)]
        )
        for number in range(topics)
    ]
    return alter_partition_reassignments(WITHOUT_TOPICS, asked(AlterPartitionReassignmentsRequest(topics=named)), 0)


def listed(topics: int, partitions: int) -> Generator[Any, Any, Any]:
    named = [
        ListPartitionReassignmentsTopics(name="t", partition_indexes=list(range(partitions))) for _ in range(topics)
    ]
    topic = SimpleNamespace(name="t", partitions={})
    state: Any = SimpleNamespace(image=SimpleNamespace(topics={"t": topic}))
    return list_partition_reassignments(state, asked(ListPartitionReassignmentsRequest(topics=named)), 0)


def directories_of(topics: int, partitions: int) -> Generator[Any, Any, Any]:
    class NoDirectories(list[Any]):
        failed_paths: tuple[str, ...] = ()

    named = [DescribableLogDirTopic(topic=str(number), partitions=list(range(partitions))) for number in range(topics)]
    broker: Any = SimpleNamespace(replicas=SimpleNamespace(directories=NoDirectories()))
    unknown: Any = None
    return describe_log_dirs(broker, DescribeLogDirsRequest(topics=named), unknown)


def asked(message: Any) -> Any:
    return SimpleNamespace(message=message)


WITHOUT_TOPICS: Any = SimpleNamespace(image=SimpleNamespace(topics={}))


@pytest.mark.parametrize("shape", [(1, MANY), (MANY, 0), (MANY // 10, 10)], ids=["one topic", "topics alone", "both"])
@pytest.mark.parametrize("walk", [offsets_of, reassigned, listed, directories_of])
def test_topics_and_partitions_are_walked_in_steps(
    walk: Callable[[int, int], Generator[Any, Any, Any]], shape: tuple[int, int]
) -> None:
    steps, _ = finished(walk(*shape))
    assert steps >= MANY // MOST_IN_A_STEP


def test_partitions_that_are_named_twice_are_found() -> None:
    topics = [
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=index) for index in indexes])
        for name, indexes in [("a", [0, 1, 1]), ("b", [0]), ("a", [0])]
    ]
    assert set(finished(_named_twice(ListOffsetsRequest(topics=topics)))[1]) == {("a", 0), ("a", 1)}


def test_wanted_configs_are_chosen_in_steps_and_unknown_ones_forgotten() -> None:
    entries = [DescribeConfigsResourceResult(name=name) for name in ("a", "b", "c")]
    steps, chosen = finished(_chosen(entries, ["c", *map(str, range(MANY)), "a"]))
    assert [entry.name for entry in chosen] == ["a", "c"]
    assert steps >= MANY // MOST_IN_A_STEP


@pytest.mark.parametrize("code", [error_codes.NONE, error_codes.NOT_CONTROLLER])
def test_a_controller_that_is_not_active_is_found_in_steps(code: int) -> None:
    results = [DeletableTopicResult(name=str(number)) for number in range(MANY)]
    results[-1].error_code = code
    steps, found = finished(names_no_controller(DeleteTopicsResponse(responses=results)))
    assert found == (code == error_codes.NOT_CONTROLLER)
    assert steps >= MANY // MOST_IN_A_STEP


def test_names_in_a_topology_are_examined_in_steps() -> None:
    names = dict.fromkeys([*map(str, range(MANY)), "not valid"])
    steps, text = finished(_why_names_are_wrong(names))
    assert text == "Topic names not valid are not valid topic names."
    assert steps >= MANY // MOST_IN_A_STEP
    assert "__consumer_offsets" in finished(_why_names_are_wrong({"a": None, "__consumer_offsets": None}))[1]


def test_names_that_occur_once_are_found_in_steps() -> None:
    steps, once = finished(_named_once([*map(str, range(MANY)), "7"]))
    assert len(once) == MANY - 1
    assert "7" not in once
    assert steps >= MANY // MOST_IN_A_STEP


@pytest.mark.parametrize("count", [0, 1, STEP_ELEMENTS, STEP_ELEMENTS + 1, 5 * STEP_ELEMENTS])
def test_blocks_have_all_results_and_few_elements_are_no_step(count: int) -> None:
    steps, results = finished(in_blocks(iter(range(count)), str))
    assert results == [str(number) for number in range(count)]
    assert steps == count // STEP_ELEMENTS
    steps, results = finished(each(range(count), str, STEP_ELEMENTS))
    assert results == [str(number) for number in range(count)]
    assert steps >= 1


def test_configs_that_are_altered_here_are_walked_in_steps() -> None:
    """All are settled already, so nothing is judged and nothing is left for the controller."""
    names = [str(number // 2) for number in range(MANY)]
    twice = [AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in names]
    settling = settled_of(twice)
    steps, settled = finished(settling)
    assert len(settled) == MANY
    assert steps >= MANY // MOST_IN_A_STEP
    steps, rest = finished(without(twice, settled))
    assert not rest
    assert steps >= MANY // MOST_IN_A_STEP
    steps, merged = finished(merge(twice, settled, [], AlterConfigsResourceResponse))
    assert {each.error_code for each in merged} == {error_codes.INVALID_REQUEST}
    assert steps >= MANY // MOST_IN_A_STEP


def settled_of(resources: list[AlterConfigsResource]) -> Generator[Any, Any, Any]:
    unknown: Any = None
    return settle_legacy(AlterConfigsRequest(resources=resources, validate_only=False), unknown)


def test_a_resource_has_few_configs() -> None:
    many = [AlterableConfig(name=str(number), value="") for number in range(MOST_CONFIGS + 1)]
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=many)
    _, settled = finished(settled_of([resource]))
    assert settled[0].code == error_codes.INVALID_REQUEST


def test_committed_offsets_are_described_in_steps() -> None:
    group = Group("g")
    group.offsets = {"t": {index: pack(index, 0, 0, -1, -1, ZERO_UUID, "") for index in range(MANY)}}
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    shard: Any = SimpleNamespace(groups={"g": group})
    answered: list[Any] = []
    decision: Any = SimpleNamespace(reply=lambda _ticket, message: answered.append(message))
    request: Any = SimpleNamespace(message=asked, require_stable=False, ticket=None)
    group.membership = SimpleNamespace(check_fetch=lambda _message: error_codes.NONE)
    fetch_offsets(shard, request, decision)
    del group.offsets["t"][0]  # a later commit or deletion does not change the answer
    steps, response = finished(answered[0].response())
    assert [each.committed_offset for each in response.topics[0].partitions] == list(range(MANY))
    assert steps >= MANY // MOST_IN_A_STEP


@pytest.mark.parametrize("topics", [1, MANY])
def test_a_produce_names_partitions_in_steps(topics: int) -> None:
    places = [(str(number), [(index, None) for index in range(MANY // topics)]) for number in range(topics)]
    steps, (kept, overruled) = finished(one_of_each_in_steps(places * 2, 9))
    assert len(kept) == topics
    assert not overruled
    assert steps >= MANY // MOST_IN_A_STEP


@pytest.mark.parametrize("left_out", [False, True])
def test_names_that_are_left_out_are_steps_too(left_out: bool) -> None:
    names = (None if left_out else str(number) for number in range(MANY))
    steps, once = finished(distinct(names))
    assert len(once) == (0 if left_out else MANY)
    assert steps >= MANY // MOST_IN_A_STEP
