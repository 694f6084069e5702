"""Eligible leader replicas as a feature (KIP-966): turned on and off, one minimum for all brokers, who leads again."""

from typing import Any

import pytest
from controller_world import ControllerWorld

from kpybroker.machines.controller.controller import FenceStaleBrokers
from kpybroker.machines.controller.features import SAFE_DOWNGRADE, UPGRADE
from kpybroker.machines.metadata.image import BROKER_RESOURCE, ELR_VERSION, TOPIC_RESOURCE
from kpybroker.machines.metadata.topic import NO_LEADER, RECOVERED, RECOVERING
from kpywire import error_codes
from kpywire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kpywire.messages.incremental_alter_configs import AlterableConfig as Change
from kpywire.messages.incremental_alter_configs import AlterConfigsResource as Changed
from kpywire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord

MINIMUM = "min.insync.replicas"
SESSION_MS = 9_000
ON = FeatureLevelRecord(name=ELR_VERSION, feature_level=1)
FAILED = "The update failed for all features since the following feature had an error: "


def config_of(broker: str, value: str | None, name: str = MINIMUM) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=name, value=value)


def update(world: ControllerWorld, *, validate_only: bool = False, **levels: int) -> tuple[Any, list[Any]]:
    """The answer, and what was written. ``_`` stands for ``.``; what is lowered is lowered safely."""
    before = len(world.log)
    updates = [
        FeatureUpdateKey(
            feature=name.replace("_", "."),
            max_version_level=level,
            upgrade_type=UPGRADE if level >= world.state.finalized_level(name.replace("_", ".")) else SAFE_DOWNGRADE,
        )
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=updates, validate_only=validate_only)
    answer = world.send(request, 2)
    return answer, world.log[before:]


def with_elr(*brokers: int) -> ControllerWorld:
    return ControllerWorld(extra_features={ELR_VERSION: 1}).start_brokers(*brokers)


def die(world: ControllerWorld, dead: int, *alive: int) -> None:
    """A broker falls silent, and is fenced."""
    world.pass_time(SESSION_MS + 10, *alive)
    while world.image.brokers[dead].is_active:
        world.decide(FenceStaleBrokers())


def come_back(world: ControllerWorld, broker: int, *, clean: bool) -> None:
    epoch = world.image.brokers[broker].epoch
    incarnation = bytes([broker, len(world.log) % 256]) * 8
    world.register(broker, incarnation_id=incarnation, previous_broker_epoch=epoch if clean else -1)
    world.heartbeat(broker)


# The feature


def test_turning_it_on_gives_all_brokers_one_minimum_and_takes_it_from_single_ones() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.write([config_of("2", "3"), config_of("1", "1000", "log.cleaner.threads")])
    answer, written = update(world, eligible_leader_replicas_version=1)
    assert answer.error_code == error_codes.NONE
    assert written == [config_of("", "1"), config_of("2", None), ON]
    assert world.image.elr_enabled
    assert world.image.configs_of(BROKER_RESOURCE, "2") == {}


def test_turning_it_on_keeps_a_minimum_that_all_brokers_have() -> None:
    world = ControllerWorld().start_brokers(1)
    world.write([config_of("", "2")])
    assert update(world, eligible_leader_replicas_version=1)[1] == [ON]
    assert world.image.configs_of(BROKER_RESOURCE, "") == {MINIMUM: "2"}


def test_validating_it_writes_nothing() -> None:
    world = ControllerWorld().start_brokers(1)
    answer, written = update(world, validate_only=True, eligible_leader_replicas_version=1)
    assert (answer.error_code, written) == (error_codes.NONE, [])


def test_elr_needs_metadata_version_4_0_iv1_possibly_of_the_same_request() -> None:
    world = ControllerWorld(level=22).start_brokers(1)
    answer, written = update(world, eligible_leader_replicas_version=1)
    assert (answer.error_code, written) == (error_codes.INVALID_UPDATE_VERSION, [])
    assert answer.error_message == (
        f"{FAILED}Invalid update version 1 for feature {ELR_VERSION}. {ELR_VERSION} could not be set to 1 because it "
        "depends on metadata.version level 23"
    )
    answer, written = update(world, eligible_leader_replicas_version=1, metadata_version=23)
    assert answer.error_code == error_codes.NONE
    assert world.image.elr_enabled


def test_a_broker_that_lacks_it_keeps_it_off() -> None:
    world = ControllerWorld()
    lacking = [each for each in world.registration(1).features if each.name != ELR_VERSION]
    world.register(1, features=lacking)
    answer, _ = update(world, eligible_leader_replicas_version=1)
    assert answer.error_message.endswith("Broker 1 does not support this feature.")


def test_turning_elr_off_clears_eligible_replicas_at_the_next_change() -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="3")
    die(world, 1, 2, 3)
    assert world.partition("orders").elr == (1,)
    world.write([config_of("", "2")])
    answer, written = update(world, eligible_leader_replicas_version=0)
    assert answer.error_code == error_codes.NONE
    assert written == [FeatureLevelRecord(name=ELR_VERSION, feature_level=0)]
    assert world.image.configs_of(BROKER_RESOURCE, "") == {MINIMUM: "2"}
    die(world, 2, 3)
    assert world.partition("orders").elr == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("1", "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        ("", "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
    ],
)
def test_a_minimum_is_not_taken_from_all_brokers_nor_set_on_one_by_either_request(name: str, message: str) -> None:
    world = with_elr(1)
    world.write([config_of("", "2")])
    value = "2" if name else None
    operation = 0 if name else 1
    change = Changed(
        resource_type=BROKER_RESOURCE,
        resource_name=name,
        configs=[Change(name=MINIMUM, config_operation=operation, value=value)],
    )
    (answer,) = world.send(IncrementalAlterConfigsRequest(resources=[change], validate_only=False)).responses
    assert (answer.error_code, answer.error_message) == (error_codes.INVALID_CONFIG, message)
    configs = [AlterableConfig(name=MINIMUM, value="2")] if name else []
    legacy = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name=name, configs=configs)
    (answer,) = world.send(AlterConfigsRequest(resources=[legacy], validate_only=False)).responses
    assert (answer.error_code, answer.error_message) == (error_codes.INVALID_CONFIG, message)


# Who leads


def test_the_last_ones_in_sync_stay_eligible_and_a_clean_one_leads_again() -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="2")
    for dead, alive in ((3, (1, 2)), (2, (1,)), (1, ())):
        die(world, dead, *alive)
    gone = world.partition("orders")
    assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (NO_LEADER, (), (1, 2), (1,))
    come_back(world, 3, clean=True)
    assert world.partition("orders").leader == NO_LEADER
    come_back(world, 2, clean=True)
    back = world.partition("orders")
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (2, (2,), (1,), ())
    assert back.leader_recovery_state == RECOVERED


def test_when_all_came_back_unclean_the_last_known_leader_leads_and_recovers() -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="2")
    for dead, alive in ((3, (1, 2)), (2, (1,)), (1, ())):
        die(world, dead, *alive)
    for broker, elr in ((3, (1, 2)), (2, (1,))):
        come_back(world, broker, clean=False)
        assert (world.partition("orders").leader, world.partition("orders").elr) == (NO_LEADER, elr)
    come_back(world, 1, clean=False)
    back = world.partition("orders")
    assert (back.leader, back.isr, back.elr, back.leader_recovery_state) == (1, (1,), (), RECOVERING)


def test_an_unclean_election_prefers_an_eligible_replica() -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [3, 1, 2]}, min_insync_replicas="2", unclean_leader_election_enable="true")
    for dead, alive in ((3, (1, 2)), (2, (1,))):
        die(world, dead, *alive)
    come_back(world, 2, clean=True)
    die(world, 1, 2)
    eligible = world.partition("orders")
    assert (eligible.leader, eligible.leader_recovery_state) == (2, RECOVERED)
    die(world, 2)
    come_back(world, 3, clean=True)
    unclean = world.partition("orders")
    assert (unclean.leader, unclean.isr, unclean.elr, unclean.leader_recovery_state) == (3, (3,), (), RECOVERING)


# When the minimum changes


def set_minimum(world: ControllerWorld, topic: str, value: str) -> None:
    config = Change(name=MINIMUM, config_operation=0, value=value)
    kind = TOPIC_RESOURCE if topic else BROKER_RESOURCE
    changed = Changed(resource_type=kind, resource_name=topic, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[changed], validate_only=False)
    assert world.send(request).responses[0].error_code == error_codes.NONE


@pytest.mark.parametrize("topic", ["orders", ""])
def test_a_changed_min_isr_without_a_leader_keeps_the_last_leader_eligible(topic: str) -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="2")
    for dead, alive in ((3, (1, 2)), (2, (1,)), (1, ())):
        die(world, dead, *alive)
    set_minimum(world, topic, "1")
    come_back(world, 2, clean=True)
    assert world.partition("orders").leader == NO_LEADER
    come_back(world, 1, clean=True)
    back = world.partition("orders")
    assert (back.leader, back.isr, back.elr, back.leader_recovery_state) == (1, (1,), (), RECOVERED)


def test_after_a_min_isr_change_an_incomplete_replica_does_not_lead_before_complete_ones() -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="2")
    for dead, alive in ((3, (1, 2)), (2, (1,)), (1, ())):
        die(world, dead, *alive)
    set_minimum(world, "orders", "1")
    come_back(world, 1, clean=False)
    assert world.partition("orders").leader == NO_LEADER


def test_a_minimum_that_changes_while_the_last_one_is_gone_still_lets_the_last_known_leader_lead() -> None:
    world = with_elr(1, 2)
    world.created("orders", {0: [1, 2]}, min_insync_replicas="1")
    for dead, alive in ((2, (1,)), (1, ())):
        die(world, dead, *alive)
    set_minimum(world, "orders", "2")
    come_back(world, 1, clean=False)
    back = world.partition("orders")
    assert (back.leader, back.isr, back.leader_recovery_state) == (1, (1,), RECOVERING)


def test_a_changed_min_isr_adds_no_eligible_replicas_of_other_topics_or_beside_a_leader() -> None:
    world = with_elr(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="3")
    world.created("other", {0: [1, 2, 3]}, min_insync_replicas="3")
    die(world, 3, 1, 2)
    set_minimum(world, "orders", "2")
    assert world.partition("orders").elr == ()
    assert world.partition("other").elr == (3,)
