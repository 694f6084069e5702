"""The controller and topics that are mirrors: their ids, epochs and configs, and the ids of producers."""

from typing import Any

import pytest
from controller_requests import DELETE, SET, change, create, replace, topic, widen
from controller_world import ControllerWorld

from kpybroker.machines.controller.mirrored_topics import DISTANT_FROM, TIERED, alteration
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.mirror_configs import (
    EXPORTED,
    EXPORTING,
    JOINING,
    LEADER_EPOCH,
    MIRRORING,
    MIRRORS,
    SOURCE,
    STATE,
    STOPPING,
    TOPIC_ID,
)
from kpywire import error_codes
from kpywire.uuid import to_string

TOPIC, BROKER = 2, 4
ID = bytes(range(16, 32))
CONFIGS = {SOURCE: "dr", TOPIC_ID: to_string(ID), LEADER_EPOCH: "1005"}


@pytest.fixture
def world() -> ControllerWorld:
    made = ControllerWorld(extra_features={"eligible.leader.replicas.version": 1}).start_brokers(1)
    made.send(change(BROKER, "", (MIRRORS, SET, "dr:*")))
    return made


def created(world: ControllerWorld, name: str = "t", configs: dict[str, str] | None = None) -> int:
    wanted = topic(name, partitions=2, replication_factor=1, configs=CONFIGS if configs is None else configs)
    (result,) = world.send(create(wanted)).topics
    return int(result.error_code)


def altered(world: ControllerWorld, *changes: tuple[str, int, Any]) -> int:
    (result,) = world.send(change(TOPIC, "t", *changes)).responses
    return int(result.error_code)


def epochs(world: ControllerWorld) -> list[int]:
    return [each.leader_epoch for each in world.state.image.topics["t"].partitions.values()]


def test_a_mirror_has_the_id_of_its_source_and_later_leader_epochs(world: ControllerWorld) -> None:
    assert created(world) == error_codes.NONE
    assert world.state.image.topics["t"].id == ID
    assert epochs(world) == [1005, 1005]


def test_a_mirror_that_the_cluster_does_not_have_is_refused(world: ControllerWorld) -> None:
    assert created(world, configs={**CONFIGS, SOURCE: "other"}) == error_codes.INVALID_CONFIG


def test_an_id_that_begins_with_a_dash_is_taken_over(world: ControllerWorld) -> None:
    """Kafka 2.8 gives such ids; later releases do not."""
    dashed = bytes([62 << 2]) + ID[1:]
    assert to_string(dashed).startswith("-")
    assert created(world, configs={**CONFIGS, TOPIC_ID: to_string(dashed)}) == error_codes.NONE
    assert world.state.image.topics["t"].id == dashed


def test_an_id_that_kafka_keeps_for_itself_is_refused(world: ControllerWorld) -> None:
    for reserved in (bytes(16), bytes(15) + b"\x63"):
        assert created(world, configs={**CONFIGS, TOPIC_ID: to_string(reserved)}) == error_codes.INVALID_CONFIG


def test_an_id_that_another_topic_has_is_refused(world: ControllerWorld) -> None:
    created(world)
    assert created(world, "u") == error_codes.INVALID_CONFIG


@pytest.mark.parametrize("missing", [SOURCE, TOPIC_ID, LEADER_EPOCH])
def test_the_configs_of_a_mirror_are_set_together(world: ControllerWorld, missing: str) -> None:
    assert (
        created(world, configs={key: CONFIGS[key] for key in CONFIGS if key != missing}) == error_codes.INVALID_CONFIG
    )


def test_partitions_that_are_added_have_later_epochs_too(world: ControllerWorld) -> None:
    created(world)
    world.send(widen(("t", 3, None)))
    assert epochs(world) == [1005] * 3


def test_leader_epochs_are_raised_and_never_lowered(world: ControllerWorld) -> None:
    created(world)
    before = [each.partition_epoch for each in world.state.image.topics["t"].partitions.values()]
    assert altered(world, (LEADER_EPOCH, SET, "3000")) == error_codes.NONE
    assert epochs(world) == [3000, 3000]
    assert [each.partition_epoch for each in world.state.image.topics["t"].partitions.values()] == [
        each + 1 for each in before
    ]
    assert altered(world, (LEADER_EPOCH, SET, "2000")) == error_codes.INVALID_CONFIG


def adopted(world: ControllerWorld, **changed: str) -> int:
    """The error code of an ordinary topic's first step to a mirror."""
    own_id = to_string(world.state.image.topics["t"].id)
    wanted = {SOURCE: "dr", TOPIC_ID: own_id, LEADER_EPOCH: "1005", STATE: EXPORTING, **changed}
    return altered(world, *((key, SET, value) for key, value in wanted.items()))


@pytest.mark.parametrize("state", [MIRRORING, JOINING, STOPPING])
def test_a_topic_that_exists_is_not_fed_before_its_own_records_are_exported(world: ControllerWorld, state: str) -> None:
    created(world, configs={})
    assert adopted(world, **{STATE: state, EXPORTED: ""}) == error_codes.INVALID_CONFIG


def test_a_topic_that_exists_becomes_a_mirror_in_steps(world: ControllerWorld) -> None:
    created(world, configs={})
    assert adopted(world) == error_codes.NONE
    assert epochs(world) == [1005, 1005]
    assert altered(world, (STATE, SET, MIRRORING)) == error_codes.INVALID_CONFIG
    assert altered(world, (STATE, DELETE, None)) == error_codes.INVALID_CONFIG
    assert altered(world, (STATE, SET, JOINING)) == error_codes.INVALID_CONFIG
    assert altered(world, (STATE, SET, JOINING), (EXPORTED, SET, "0:5:7:0:2")) == error_codes.NONE
    assert altered(world, (STATE, SET, MIRRORING)) == error_codes.NONE
    assert altered(world, (STATE, SET, EXPORTING)) == error_codes.INVALID_CONFIG


def test_a_mirror_that_was_stopped_for_a_failover_is_not_fed_again(world: ControllerWorld) -> None:
    created(world)
    altered(world, (STATE, SET, STOPPING))
    assert altered(world, (STATE, SET, MIRRORING)) == error_codes.INVALID_CONFIG


@pytest.mark.parametrize("changed", [{TOPIC_ID: to_string(ID)}, {SOURCE: "other"}, {EXPORTED: "0:1"}])
def test_a_topic_becomes_a_mirror_only_of_the_same_topic(world: ControllerWorld, changed: dict[str, str]) -> None:
    created(world, configs={})
    assert adopted(world, **changed) == error_codes.INVALID_CONFIG


def test_a_tiered_topic_does_not_become_a_mirror(world: ControllerWorld) -> None:
    created(world, configs={})
    own_id = to_string(world.state.image.topics["t"].id)
    before = {TIERED: "true"}
    after = {**before, SOURCE: "dr", TOPIC_ID: own_id, LEADER_EPOCH: "1005", STATE: EXPORTING}
    with pytest.raises(KafkaError, match="topic t is tiered"):
        alteration(world.state, "t", before, after)


def test_a_mirror_keeps_its_source(world: ControllerWorld) -> None:
    created(world)
    assert altered(world, (SOURCE, SET, "other")) == error_codes.INVALID_CONFIG


def test_a_mirror_ends_when_its_configs_are_deleted(world: ControllerWorld) -> None:
    created(world)
    assert altered(world, (STATE, SET, STOPPING)) == error_codes.NONE
    assert altered(world, *((key, DELETE, None) for key in (*CONFIGS, STATE))) == error_codes.NONE
    assert world.state.image.configs_of(TOPIC, "t") == {}
    assert epochs(world) == [1005, 1005]


def test_a_request_that_replaces_all_configs_ends_no_mirror(world: ControllerWorld) -> None:
    created(world, configs={**CONFIGS, "retention.ms": "5"})
    world.send(replace(TOPIC, "t", ("retention.bytes", "7")))
    assert world.state.image.configs_of(TOPIC, "t") == {**CONFIGS, "retention.bytes": "7"}


def test_producer_ids_go_on_far_away_once(world: ControllerWorld) -> None:
    first = world.state.image.next_producer_id
    assert first >= DISTANT_FROM
    created(world)
    assert world.state.image.next_producer_id == first
