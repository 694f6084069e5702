"""Long decisions pause: after every `STEP` elements of a request others may go on, whatever the request is."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from controller_requests import change, create, delete, elect, replace, topic, update, widen
from controller_world import ControllerWorld

from kpybroker.machines.controller import acls as acls_of_controller
from kpybroker.machines.controller import deciders
from kpybroker.machines.controller.state import STEP, ControllerRequest
from kpywire.messages import alter_configs as legacy
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from kpywire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

MANY_RESOURCES = 8_000
WIDE = 3 * STEP
"""The partitions of the topic that is there."""


def acls(count: int) -> CreateAclsRequest:
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=2, resource_name=f"r{number}", resource_pattern_type=3, principal="User:a", host="*",
                operation=3, permission_type=3,
            )
            for number in range(count)
        ]
    )  # fmt: skip


def quotas(count: int) -> AlterClientQuotasRequest:
    rate = [OpData(key="producer_byte_rate", value=1.0, remove=False)]
    names = [
        [AlterClientQuotasRequestEntityData(entity_type="user", entity_name=f"u{number}")] for number in range(count)
    ]
    return AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntryData(entity=name, ops=rate) for name in names], validate_only=False
    )


def features(count: int) -> Any:
    message = update("f", 1, 1)
    (key,) = message.feature_updates
    message.feature_updates = [type(key)(feature=f"f{n}", max_version_level=1, upgrade_type=1) for n in range(count)]
    return message


def reassignments(count: int) -> AlterPartitionReassignmentsRequest:
    moved = [ReassignablePartition(partition_index=number, replicas=[2]) for number in range(count)]
    return AlterPartitionReassignmentsRequest(timeout_ms=1, topics=[ReassignableTopic(name="wide", partitions=moved)])


def listed_reassignments(count: int) -> ListPartitionReassignmentsRequest:
    asked = ListPartitionReassignmentsTopics(name="wide", partition_indexes=list(range(count)))
    return ListPartitionReassignmentsRequest(timeout_ms=1, topics=[asked])


def one_resource_again_and_again(count: int) -> IncrementalAlterConfigsRequest:
    resource = AlterConfigsResource(resource_type=2, resource_name="wide", configs=[])
    return IncrementalAlterConfigsRequest(resources=[resource] * count, validate_only=False)


def incremental_configs(names: list[str]) -> IncrementalAlterConfigsRequest:
    resources = [AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in names]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def replaced_configs(names: list[str]) -> legacy.AlterConfigsRequest:
    resources = [legacy.AlterConfigsResource(resource_type=2, resource_name=name, configs=[]) for name in names]
    return legacy.AlterConfigsRequest(resources=resources, validate_only=False)


def old_deletion(count: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=[f"x{number}" for number in range(count)], topics=[], timeout_ms=1)


def deletions_of_credentials(count: int) -> AlterUserScramCredentialsRequest:
    gone = [ScramCredentialDeletion(name=f"u{number}", mechanism=1) for number in range(count)]
    return AlterUserScramCredentialsRequest(deletions=gone, upsertions=[])


REQUESTS: dict[str, tuple[Callable[[int], Any], int, int]] = {
    "partitions that the controller places": (lambda n: create(topic("new", n, 1)), 1, 7),
    "partitions that the client places": (
        lambda n: create(topic("new", assignments={number: [1] for number in range(n)})), 1, 7,
    ),
    "one topic again and again": (lambda n: create(*[topic("t", 1, 1)] * n), 1, 6),
    "topics": (lambda n: create(*[topic(f"t{number}", 1, 1) for number in range(n)]), 1, 121),
    "new partitions": (lambda n: widen(("wide", WIDE + n, None)), 1, 7),
    "new partitions that the client places": (lambda n: widen(("wide", WIDE + n, [[1, 2]] * n)), 1, 7),
    "topics to delete": (lambda n: delete(*[f"x{number}" for number in range(n)]), 0, 9),
    "topics to delete, in old requests": (old_deletion, 0, 9),
    "ids to delete": (lambda n: delete(states=[(None, bytes([number]) * 16) for number in range(1, n + 1)]), 0, 9),
    "elections": (lambda n: elect(0, ("wide", range(n))), 1, 3),
    "configs": (lambda n: change(2, "wide", *[(f"k{number}", 0, "1") for number in range(n)]), 2, 8),
    "configs to replace": (lambda n: replace(2, "wide", *[(f"k{number}", "1") for number in range(n)]), 3, 6),
    "one resource again and again": (one_resource_again_and_again, 2, 99),
    "features": (features, 0, 3),
    "ACLs": (acls, 0, 3),
    "quotas": (quotas, 0, 3),
    "credentials to delete": (deletions_of_credentials, 0, 4),
    "reassignments": (reassignments, 1, 4),
    "reassignments to list": (listed_reassignments, 1, 4),
}  # fmt: skip


def test_the_deletion_of_acls_pauses_after_as_many_as_it_has_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls_of_controller, "_COMPARED_AT_ONCE", 10)
    world = ControllerWorld()
    world.send(acls(29))
    one = DeleteAclsFilter(
        resource_type_filter=2, resource_name_filter="r5", pattern_type_filter=3, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip
    for filters, pauses in ((0, 0), (1, 3), (3, 9)):
        message: Any = DeleteAclsRequest(filters=[one] * filters)
        request = ControllerRequest(object(), message, type(message).VERSIONS[-1])
        assert sum(1 for _ in world.controller.deliberate(request, world.now_ms)) == pauses


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_many_elements_pauses_after_every_step(name: str) -> None:
    """The numbers are those of the passes over the elements: each pauses three times, and little pauses not."""
    make, of_one, of_three_steps = REQUESTS[name]
    found = []
    for count in (1, 3 * STEP):
        world = ControllerWorld().start_brokers(1, 2)
        world.created("wide", {number: [1, 2] for number in range(WIDE)})
        message = make(count)
        request = ControllerRequest(object(), message, type(message).VERSIONS[-1])
        found.append(sum(1 for _ in world.controller.deliberate(request, world.now_ms)))
        assert world.send(message).throttle_time_ms == 0
    assert found == [of_one, of_three_steps]


@pytest.mark.parametrize("version", [0, 1], ids=["replaced", "incremental"])
def test_no_step_of_an_alteration_frees_more_than_a_few_objects_for_each_of_its_resources(version: int) -> None:
    """A hundred thousand objects take ten milliseconds to free."""
    world = ControllerWorld().start_brokers(1)
    resources = [f"t{number}" for number in range(MANY_RESOURCES)]
    message = (replaced_configs, incremental_configs)[version](resources)
    steps = world.controller.deliberate(ControllerRequest(object(), message, 1), world.now_ms)
    most_freed, decision = 0, None
    while decision is None:
        before = sys.getallocatedblocks()
        try:
            next(steps)
        except StopIteration as end:
            decision = end.value
        most_freed = max(most_freed, before - sys.getallocatedblocks())
    assert most_freed < MANY_RESOURCES // 4


def test_a_decider_that_does_not_say_its_form_may_work_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """``inspect.isgeneratorfunction`` is false for a compiled generator function, as for any that is built in."""
    monkeypatch.setattr(deciders, "decider_of", lambda _name: len)
    assert deciders._is_in_steps.__wrapped__("CreateTopicsRequest")
