"""The edges of what a controller grants: the largest that is still allowed, the broker whose id is 0, and long work."""

from typing import Any

import pytest
from controller_requests import APPEND, SET, change, create, replace, topic
from controller_world import ControllerWorld, FixedVersion, topic_request

from kpybroker.machines.controller import acls
from kpybroker.machines.controller.configs import LONG_VALUE
from kpybroker.machines.controller.controller import ElectPreferredLeaders
from kpybroker.machines.controller.error_responses import plain_error_response
from kpybroker.machines.controller.large_batch import LARGE_RECORDS, LargeBatch
from kpybroker.machines.controller.state import STEP, ControllerRequest
from kpybroker.machines.journal import ProducerEpoch
from kpybroker.machines.metadata.image import BROKER_RESOURCE, ELR_VERSION, InvalidMetadata
from kpybroker.machines.metadata.topic import NO_LEADER
from kpybroker.runtime.calls.steps import at_once
from kpywire import error_codes
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord

TOPIC, GROUP = 2, 3
ANY = 1


def acl(name: str) -> AclCreation:
    return AclCreation(
        resource_type=TOPIC, resource_name=name, resource_pattern_type=3, principal="User:a", host="*",
        operation=3, permission_type=3,
    )  # fmt: skip


def every_acl() -> DeleteAclsRequest:
    everything = DeleteAclsFilter(
        resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY, principal_filter=None,
        host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    return DeleteAclsRequest(filters=[everything])


def test_the_maximum_of_acls_can_be_created_and_deleted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acls, "MOST_AT_ONCE", 3)
    world = ControllerWorld()
    too_many = world.send(CreateAclsRequest(creations=[acl(name) for name in "abcd"]))
    assert {each.error_code for each in too_many.results} == {error_codes.POLICY_VIOLATION}
    assert not world.image.acls
    created = world.send(CreateAclsRequest(creations=[acl(name) for name in "abcaab"]))
    assert {each.error_code for each in created.results} == {error_codes.NONE}, "what is there already counts not"
    assert len(world.image.acls) == 3
    world.send(CreateAclsRequest(creations=[acl("d")]))
    (refused,) = world.send(every_acl()).filter_results
    assert refused.error_code == error_codes.INVALID_REQUEST
    assert refused.error_message == "Cannot remove more than 3 acls in a single delete operation."
    assert len(world.image.acls) == 4
    monkeypatch.setattr(acls, "MOST_AT_ONCE", 4)
    (deleted,) = world.send(every_acl()).filter_results
    assert (deleted.error_code, len(deleted.matching_acls)) == (error_codes.NONE, 4)
    assert not world.image.acls


@pytest.mark.parametrize(("length", "is_allowed"), [(32_767, True), (32_768, False)])
def test_a_value_has_just_the_length_that_is_allowed(length: int, *, is_allowed: bool) -> None:
    world = ControllerWorld().start_brokers(1)
    world.created("t")
    key = "leader.replication.throttled.replicas"
    code = error_codes.NONE if is_allowed else error_codes.INVALID_CONFIG
    value = "0:" + "1" * (length - 2)
    assert world.send(change(TOPIC, "t", (key, SET, value))).responses[0].error_code == code
    assert world.send(replace(TOPIC, "t", (key, value))).responses[0].error_code == code
    assert world.create(topic("u", 1, 1, configs={key: value}))[0].error_code == code


@pytest.mark.parametrize(("length", "pauses"), [(LONG_VALUE, 2), (LONG_VALUE + 1, 7)])
def test_a_long_list_is_edited_in_steps(length: int, pauses: int) -> None:
    world = ControllerWorld().start_brokers(1)
    world.created("t")
    value = "0:1," * (length // 4) + "0:1"[: length % 4]
    message: Any = change(TOPIC, "t", ("leader.replication.throttled.replicas", APPEND, value))
    request = ControllerRequest(object(), message, type(message).VERSIONS[-1])
    assert sum(1 for _ in world.controller.deliberate(request, world.now_ms)) == pauses


def test_a_large_batch_is_applied_in_steps_and_once() -> None:
    world = ControllerWorld().start_brokers(1)
    message: Any = create(*(topic(f"t{number}", 1, 1) for number in range(LARGE_RECORDS)))
    request = ControllerRequest(object(), message, type(message).VERSIONS[-1])
    steps = world.controller.deliberate(request, world.now_ms)
    (batch,) = world.controller.decide(at_once(steps), world.now_ms).records
    world.controller.apply(batch, len(world.log))
    assert not world.image.topics, "it is applied when the controller settles"
    pauses = sum(1 for _ in world.controller.settle())
    assert pauses == len(batch.units) // STEP
    assert len(world.image.topics) == LARGE_RECORDS
    state = world.image.state()
    assert sum(1 for _ in world.controller.settle()) == 0
    assert world.image.state() == state


@pytest.mark.parametrize(("count", "is_large"), [(LARGE_RECORDS - 1, False), (LARGE_RECORDS, True)])
def test_a_batch_is_large_from_so_many_records_on(count: int, *, is_large: bool) -> None:
    world = ControllerWorld()
    message: Any = CreateAclsRequest(creations=[acl(f"r{number}") for number in range(count)])
    steps = world.controller.deliberate(ControllerRequest(object(), message, message.VERSIONS[-1]), world.now_ms)
    records = world.controller.decide(at_once(steps), world.now_ms).records
    assert isinstance(records[0], LargeBatch) is is_large
    assert len(records) == (1 if is_large else count)


def test_a_marker_in_the_log_of_metadata_is_an_error() -> None:
    with pytest.raises(InvalidMetadata, match="producer 5 at 7"):
        ControllerWorld().controller.apply_marker(ProducerEpoch(5, 0), 7, commit=True)


# The broker whose id is 0


@pytest.fixture
def zero() -> ControllerWorld:
    world = ControllerWorld().start_brokers(0, 1, 2)
    world.created("t", {0: [0, 1, 2], 1: [1, 0, 2]})
    return world


def leaders(world: ControllerWorld) -> list[int]:
    return [each.leader for each in world.image.topics["t"].partitions.values()]


def test_the_broker_with_the_id_0_leads_and_follows_like_any_other(zero: ControllerWorld) -> None:
    assert leaders(zero) == [0, 1]
    zero.pass_time(20_000, 1, 2)
    zero.heartbeat(0, want_fence=True)
    assert leaders(zero) == [1, 1]
    zero.heartbeat(0)
    assert leaders(zero) == [1, 1]
    topic_id = zero.image.topics["t"].id
    zero.write([PartitionChangeRecord(topic_id=topic_id, partition_id=0, isr=[1, 2, 0])])
    zero.decide(ElectPreferredLeaders())
    assert leaders(zero) == [0, 1]


def test_a_broker_that_comes_back_changes_nothing_where_another_leads(zero: ControllerWorld) -> None:
    zero.heartbeat(2, want_fence=True)
    assert zero.image.brokers[2].fenced
    before = len(zero.log)
    zero.heartbeat(2)
    assert [type(record).__name__ for record in zero.log[before:]] == ["BrokerRegistrationChangeRecord"]
    assert leaders(zero) == [0, 1]


@pytest.mark.parametrize("last", [0, 2])
def test_a_partition_without_a_leader_gets_the_one_that_comes_back(zero: ControllerWorld, last: int) -> None:
    for broker_id in {0, 1, 2} - {last}:
        zero.heartbeat(broker_id, want_fence=True)
    assert leaders(zero) == [last, last]
    zero.heartbeat(last, want_fence=True)
    assert leaders(zero) == [NO_LEADER, NO_LEADER]
    zero.heartbeat(1)
    assert leaders(zero) == [NO_LEADER, NO_LEADER], "it is not in sync"
    zero.heartbeat(last)
    assert leaders(zero) == [last, last]


# Features of brokers


@pytest.mark.parametrize(
    ("lowest", "highest", "code"),
    [(0, 1, error_codes.NONE), (0, 0, error_codes.NONE), (1, 1, error_codes.UNSUPPORTED_VERSION)],
)
def test_a_broker_supports_level_0_of_what_is_not_finalised(lowest: int, highest: int, code: int) -> None:
    world = ControllerWorld()
    message = world.registration(1)
    offered = type(message.features[0])(name="other", min_supported_version=lowest, max_supported_version=highest)
    message.features.append(offered)
    assert world.send(message).error_code == code


@pytest.mark.parametrize(("highest", "code"), [(30, error_codes.NONE), (29, error_codes.UNSUPPORTED_VERSION)])
def test_a_broker_supports_the_level_that_is_finalised(highest: int, code: int) -> None:
    world = ControllerWorld(level=30)
    message = world.registration(1)
    for each in message.features:
        if each.name == "metadata.version":
            each.max_supported_version = highest
    assert world.send(message).error_code == code


# Requests that fail as a whole


def test_each_part_of_a_request_that_fails_as_a_whole_has_the_error() -> None:
    code = error_codes.NOT_CONTROLLER
    text = error_codes.message(code)
    refused = plain_error_response(CreateAclsRequest(creations=[acl("a"), acl("b")]), 3, code)
    assert [(each.error_code, each.error_message) for each in refused.results] == [(code, text)] * 2
    refused = plain_error_response(every_acl(), 3, code)
    assert [(each.error_code, each.matching_acls) for each in refused.filter_results] == [(code, [])]
    refused = plain_error_response(create(topic_request("a"), topic_request("b")), 7, code)
    assert [(each.name, each.error_code, each.error_message) for each in refused.topics] == [
        ("a", code, text),
        ("b", code, text),
    ]
    refused = plain_error_response(change(TOPIC, "t", ("a", SET, "b")), 1, code)
    assert [(each.resource_type, each.resource_name, each.error_code) for each in refused.responses] == [
        (TOPIC, "t", code)
    ]


@pytest.mark.parametrize(("version", "whole"), [(0, error_codes.NONE), (1, error_codes.NOT_CONTROLLER)])
def test_an_election_that_fails_as_a_whole_says_so_where_its_version_has_a_place(version: int, whole: int) -> None:
    wanted = [TopicPartitions(topic="t", partitions=[0, 5]), TopicPartitions(topic="u", partitions=[])]
    request = ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=1)
    refused = plain_error_response(request, version, error_codes.NOT_CONTROLLER)
    assert refused.error_code == whole
    assert [
        (result.topic, [(each.partition_id, each.error_code) for each in result.partition_result])
        for result in refused.replica_election_results
    ] == [("t", [(0, error_codes.NOT_CONTROLLER), (5, error_codes.NOT_CONTROLLER)]), ("u", [])]


# Levels of features


def feature(world: ControllerWorld, name: str, level: int, upgrade_type: int = 1, version: int = 2) -> Any:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[key], validate_only=False)
    return world.send(request, version)


def test_the_minimum_of_all_brokers_is_written_with_the_feature_that_needs_it_alone() -> None:
    world = ControllerWorld()
    assert feature(world, ELR_VERSION, 0).error_code == error_codes.NONE
    assert not world.image.configs
    assert feature(world, ELR_VERSION, 1).error_code == error_codes.NONE
    assert world.image.configs_of(BROKER_RESOURCE, "") == {"min.insync.replicas": "1"}
    before = len(world.log)
    assert feature(world, "group.version", 1).error_code == error_codes.NONE
    assert [type(record).__name__ for record in world.log[before:]] == ["FeatureLevelRecord"]


def test_the_same_level_again_is_no_downgrade() -> None:
    world = ControllerWorld()
    for upgrade_type in (1, 2, 3):
        assert feature(world, "metadata.version", 30, upgrade_type).error_code == error_codes.NONE
    assert feature(world, "metadata.version", 30, 4).error_code == error_codes.INVALID_UPDATE_VERSION
    assert feature(world, "metadata.version", 30, 0).error_code == error_codes.INVALID_UPDATE_VERSION
    assert feature(world, "metadata.version", -1, 3).error_code == error_codes.INVALID_UPDATE_VERSION


@pytest.mark.parametrize(("version", "names"), [(1, ["group.version"]), (2, [])])
def test_each_feature_has_a_result_before_version_2(version: int, names: list[str]) -> None:
    found = feature(ControllerWorld(), "group.version", 1, version=version)
    assert [(each.feature, each.error_code) for each in found.results] == [(name, error_codes.NONE) for name in names]


def test_the_quorum_raises_its_version_and_does_not_lower_it() -> None:
    world = ControllerWorld()
    world.state.kraft_version = FixedVersion(1)
    assert feature(world, "kraft.version", 1).error_code == error_codes.NONE
    assert world.state.kraft_version.asked == [(1, False)]
    assert feature(world, "kraft.version", 1, 2).error_code == error_codes.NONE
    assert feature(world, "kraft.version", 0, 2).error_code == error_codes.INVALID_UPDATE_VERSION
