"""Registration, heartbeats, fencing, controlled shutdown: who may take part, and what moves when somebody leaves."""

import pytest
from controller_world import CLUSTER_ID, ControllerWorld, directory_of

from kpybroker.machines.controller import brokers
from kpybroker.machines.controller.controller import Controller, FenceStaleBrokers
from kpybroker.machines.controller.heartbeats import BrokerSession
from kpybroker.machines.controller.state import ControllerState
from kpybroker.machines.controller.topics import check_assignment
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import NO_LEADER
from kpywire import error_codes
from kpywire.messages.broker_registration import Feature
from kpywire.messages.controller_registration import ControllerRegistrationRequest
from kpywire.messages.controller_registration import Feature as ControllerFeature
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord

SESSION_MS = 9_000


def version_feature(lowest: int, highest: int) -> list[Feature]:
    return [Feature(name="metadata.version", min_supported_version=lowest, max_supported_version=highest)]


def test_the_epoch_of_a_broker_is_the_offset_of_its_registration() -> None:
    world = ControllerWorld()
    epoch = world.register(1, rack="r1")
    assert isinstance(world.log[epoch], RegisterBrokerRecord)
    broker = world.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack) == (epoch, True, "r1")
    assert broker.directories == (directory_of(1),)
    assert broker.listeners["PLAINTEXT"].port == 9092


def test_the_same_incarnation_amends_and_keeps_its_epoch() -> None:
    world = ControllerWorld().start_brokers(1)
    epoch = world.image.brokers[1].epoch
    assert world.register(1, rack="elsewhere") == epoch
    assert (world.image.brokers[1].rack, world.image.brokers[1].fenced) == ("elsewhere", False)


def test_a_new_incarnation_waits_for_the_session_of_the_old_one() -> None:
    world = ControllerWorld().start_brokers(1)
    world.state.heartbeats.connected(BrokerSession(1, world.image.brokers[1].epoch))
    again = world.registration(1, incarnation_id=b"n" * 16)
    assert world.send(again).error_code == error_codes.DUPLICATE_BROKER_REGISTRATION
    world.now_ms += SESSION_MS + 1
    assert world.send(again).error_code == error_codes.NONE
    assert world.image.brokers[1].fenced


def test_a_new_incarnation_that_holds_the_directories_of_one_without_a_connection_needs_not_wait() -> None:
    world = ControllerWorld().start_brokers(1)
    elsewhere = world.registration(1, incarnation_id=b"n" * 16, log_dirs=[directory_of(7)])
    assert world.send(elsewhere).error_code == error_codes.DUPLICATE_BROKER_REGISTRATION
    again = world.registration(1, incarnation_id=b"n" * 16)
    assert world.send(again).error_code == error_codes.NONE
    assert world.image.brokers[1].fenced


def test_a_new_controller_waits_for_the_sessions_of_others_but_not_of_its_own_node() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    old = world.state
    world.state = ControllerState(
        old.image.copy(), old.settings, old.rules, old.rng, lambda: len(world.log), old.kraft_version, world.now_ms
    )
    world.controller = Controller(world.state)
    other, own = (
        world.registration(broker_id, incarnation_id=b"n" * 16, log_dirs=[directory_of(broker_id + 5)])
        for broker_id in (2, 1)
    )
    assert world.send(other).error_code == error_codes.DUPLICATE_BROKER_REGISTRATION
    assert world.send(own).error_code == error_codes.NONE


def test_a_new_incarnation_leaves_the_isr_of_what_the_old_one_led() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {0: [1, 2]})
    world.pass_time(SESSION_MS + 10, 2)
    world.register(1, incarnation_id=b"n" * 16)
    partition = world.partition("orders")
    assert (partition.isr, partition.leader) == ((2,), 2)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"cluster_id": "another"}, error_codes.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, error_codes.INVALID_REGISTRATION),
        ({"log_dirs": [bytes(15) + b"\x05"]}, error_codes.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(2)] * 2}, error_codes.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(1)]}, error_codes.INVALID_REGISTRATION),
        ({"features": []}, error_codes.INVALID_REGISTRATION),
        ({"features": version_feature(7, 29)}, error_codes.UNSUPPORTED_VERSION),
        ({"features": version_feature(31, 40)}, error_codes.UNSUPPORTED_VERSION),
        ({"is_migrating_zk_broker": True}, error_codes.BROKER_ID_NOT_REGISTERED),
    ],
    ids=[
        "cluster",
        "no dir",
        "reserved dir",
        "dir twice",
        "stolen dir",
        "no version",
        "too old",
        "too new",
        "migrating",
    ],
)
def test_registrations_that_cannot_be(fields: dict[str, object], code: int) -> None:
    world = ControllerWorld().start_brokers(1)
    response = world.send(world.registration(2, **fields))
    assert (response.error_code, response.broker_epoch) == (code, -1)
    assert list(world.image.brokers) == [1]


def test_a_broker_must_cover_every_finalised_feature() -> None:
    world = ControllerWorld(extra_features={"transaction.version": 2})
    only_version = world.registration(1, features=version_feature(7, 30))
    assert world.send(only_version).error_code == error_codes.UNSUPPORTED_VERSION
    assert world.send(world.registration(1)).error_code == error_codes.NONE


def test_a_broker_is_unfenced_once_it_has_read_its_registration() -> None:
    world = ControllerWorld()
    epoch = world.register(1)
    behind = world.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    assert world.heartbeat(1, want_fence=True).is_fenced
    caught_up = world.heartbeat(1, current_metadata_offset=epoch)
    assert (caught_up.is_caught_up, caught_up.is_fenced, caught_up.should_shut_down) == (True, False, False)
    assert not world.image.brokers[1].fenced


def test_a_heartbeat_in_a_wrong_epoch_is_refused() -> None:
    world = ControllerWorld().start_brokers(1)
    assert world.heartbeat(1, broker_epoch=77).error_code == error_codes.STALE_BROKER_EPOCH


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    world = ControllerWorld().start_brokers(1)
    before = len(world.log)
    world.heartbeat(1)
    assert len(world.log) == before


def test_silent_brokers_are_fenced_and_their_leaderships_move() -> None:
    world = ControllerWorld().start_brokers(1, 2, 3)
    world.created("orders", {0: [1, 2], 1: [3, 2], 2: [3, 1]})
    world.pass_time(SESSION_MS + 10, 2)
    before = len(world.log)
    world.decide(FenceStaleBrokers())
    assert [broker.fenced for broker in world.image.brokers.values()] == [True, False, True]
    assert [world.partition("orders", number).leader for number in range(3)] == [2, 2, NO_LEADER]
    assert [world.partition("orders", number).isr for number in range(3)] == [(2,), (2,), (3,)]
    kinds = [type(record) for record in world.log[before:]]
    assert kinds.count(BrokerRegistrationChangeRecord) == 2
    assert kinds[-1] is BrokerRegistrationChangeRecord


def test_a_silent_broker_leaves_its_partitions_some_at_a_time_and_is_fenced_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers, "MOST_LEFT_AT_ONCE", 3)
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {number: [1, 2] for number in range(7)})
    world.pass_time(10_000, 2)
    sizes: list[int] = []
    event: FenceStaleBrokers | None = FenceStaleBrokers()
    while event is not None:
        effects = world.controller.decide(event, world.now_ms)
        world.write(effects.records)
        sizes.append(len(effects.records))
        event = effects.then
    assert sizes == [3, 3, 2, 0], "seven partitions, and the broker itself behind them"
    assert world.image.brokers[1].fenced
    assert {each.leader for each in world.image.topics["orders"].partitions.values()} == {2}


def test_a_silent_broker_that_is_heard_again_midway_is_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "MOST_LEFT_AT_ONCE", 3)
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {number: [1, 2] for number in range(7)})
    world.pass_time(10_000, 2)
    world.write(world.controller.decide(FenceStaleBrokers(), world.now_ms).records)
    assert not world.heartbeat(1).is_fenced
    assert not world.controller.decide(FenceStaleBrokers(), world.now_ms).records
    assert not world.image.brokers[1].fenced


def test_a_broker_that_is_known_to_have_ended_is_fenced_and_may_register_anew_before_its_session_is_over() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {0: [1, 2]})
    heartbeats = world.state.heartbeats
    heartbeats.end(BrokerSession(1, world.image.brokers[1].epoch - 1))  # of an earlier life: nothing ends
    world.decide(FenceStaleBrokers())
    assert world.partition("orders").leader == 1
    heartbeats.end(BrokerSession(1, world.image.brokers[1].epoch))
    world.decide(FenceStaleBrokers())
    assert (world.partition("orders").leader, world.partition("orders").isr) == (2, (2,))
    again = world.registration(1, incarnation_id=b"n" * 16)
    assert world.send(again).error_code == error_codes.NONE


def test_a_returning_broker_leads_its_leaderless_partitions_again() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {0: [1]})
    world.pass_time(SESSION_MS + 10, 2)
    world.decide(FenceStaleBrokers())
    assert world.partition("orders").leader == NO_LEADER
    assert not world.heartbeat(1).is_fenced
    assert world.partition("orders").leader == 1


def test_an_unclean_leader_is_elected_where_the_topic_allows_it() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.register(3)
    world.created("careful", {0: [1, 3]})
    world.created("careless", {0: [1, 3]}, unclean_leader_election_enable="true")
    world.pass_time(SESSION_MS + 10, 2)
    world.decide(FenceStaleBrokers())
    world.heartbeat(3)
    assert world.partition("careful").leader == NO_LEADER
    assert (world.partition("careless").leader, world.partition("careless").isr) == (3, (3,))


def test_a_broker_without_leaderships_may_shut_down_at_once() -> None:
    world = ControllerWorld().start_brokers(1)
    assert world.heartbeat(1, want_shut_down=True).should_shut_down
    assert world.image.brokers[1].fenced


def test_a_fenced_broker_may_shut_down_at_once() -> None:
    world = ControllerWorld()
    world.register(1)
    assert world.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_controlled_shutdown_moves_leaderships_and_waits_for_all_to_know() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {0: [1, 2], 1: [2, 1]})
    behind = len(world.log) - 1
    world.heartbeat(2, current_metadata_offset=behind)
    first = world.heartbeat(1, want_shut_down=True)
    assert (first.should_shut_down, first.is_fenced) == (False, False)
    assert world.image.brokers[1].in_controlled_shutdown
    assert [world.partition("orders", number).leader for number in range(2)] == [2, 2]
    assert [world.partition("orders", number).isr for number in range(2)] == [(2,), (2,)]
    assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    world.heartbeat(2)
    assert world.heartbeat(1, want_shut_down=True).should_shut_down
    assert world.image.brokers[1].fenced


def test_a_broker_in_controlled_shutdown_gets_no_new_replicas() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {0: [1, 2]})
    world.heartbeat(2, current_metadata_offset=0)
    world.heartbeat(1, want_shut_down=True)
    world.created("later")
    assert world.partition("later").replicas == (2,)


def test_the_only_broker_shuts_down_without_anybody_to_lead() -> None:
    world = ControllerWorld().start_brokers(1)
    world.created("orders", {0: [1]})
    assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    assert (world.partition("orders").leader, world.partition("orders").isr) == (NO_LEADER, (1,))
    assert world.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_directory_that_failed_costs_the_replicas_in_it() -> None:
    world = ControllerWorld().start_brokers(2)
    directories = [directory_of(1), directory_of(1, 1)]
    world.start_brokers(1, log_dirs=directories)
    world.created("orders", {0: [1, 2], 1: [1, 2]})
    changes = [
        PartitionChangeRecord(
            topic_id=world.image.topics["orders"].id,
            partition_id=number,
            directories=[directories[number], directory_of(2)],
        )
        for number in range(2)
    ]
    world.write(changes)
    world.heartbeat(1, offline_log_dirs=[directories[1]])
    assert [world.partition("orders", number).leader for number in range(2)] == [1, 2]
    assert world.partition("orders", 1).isr == (2,)
    assert world.image.brokers[1].directories == (directories[0],)
    before = len(world.log)
    world.heartbeat(1, offline_log_dirs=[directories[1]])
    assert len(world.log) == before


def test_a_broker_whose_directories_are_all_cordoned_gets_no_new_replicas() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.heartbeat(1, cordoned_log_dirs=[directory_of(1)])
    before = len(world.log)
    world.heartbeat(1, cordoned_log_dirs=[directory_of(1)])
    assert len(world.log) == before
    for number in range(5):
        world.created(f"t{number}")
        assert world.partition(f"t{number}").replicas == (2,)
    with pytest.raises(KafkaError, match="includes broker 1, but all its log directories are cordoned") as refused:
        check_assignment(world.state, [2, 1])
    assert refused.value.code == error_codes.INVALID_REPLICA_ASSIGNMENT
    world.heartbeat(1, cordoned_log_dirs=[])
    check_assignment(world.state, [2, 1])
    assert world.image.brokers[1].has_uncordoned_directory


def test_an_unclean_stop_costs_eligibility_where_elr_is_finalised() -> None:
    world = ControllerWorld(extra_features={"eligible.leader.replicas.version": 1}).start_brokers(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="3")
    world.pass_time(SESSION_MS + 10, 2, 3)
    world.decide(FenceStaleBrokers())
    assert world.partition("orders").elr == (1,)
    world.register(1, incarnation_id=b"n" * 16, previous_broker_epoch=-1)
    assert world.partition("orders").elr == ()


def test_a_clean_stop_keeps_eligibility_where_elr_is_finalised() -> None:
    world = ControllerWorld(extra_features={"eligible.leader.replicas.version": 1}).start_brokers(1, 2, 3)
    world.created("orders", {0: [1, 2, 3]}, min_insync_replicas="3")
    epoch = world.image.brokers[1].epoch
    world.pass_time(SESSION_MS + 10, 2, 3)
    world.decide(FenceStaleBrokers())
    world.register(1, incarnation_id=b"n" * 16, previous_broker_epoch=epoch)
    assert world.partition("orders").elr == (1,)


def test_an_unregistered_broker_is_forgotten_and_leaves_every_isr() -> None:
    world = ControllerWorld().start_brokers(1, 2)
    world.created("orders", {0: [1, 2]})
    assert world.send(UnregisterBrokerRequest(broker_id=1)).error_code == error_codes.NONE
    assert list(world.image.brokers) == [2]
    assert (world.partition("orders").isr, world.partition("orders").leader) == ((2,), 2)
    again = world.send(UnregisterBrokerRequest(broker_id=1))
    assert again.error_code == error_codes.BROKER_ID_NOT_REGISTERED
    assert again.error_message == "Broker ID 1 is not currently registered"


def test_controllers_register_what_they_support() -> None:
    world = ControllerWorld()
    request = ControllerRegistrationRequest(
        controller_id=3,
        incarnation_id=b"c" * 16,
        zk_migration_ready=False,
        listeners=[],
        features=[ControllerFeature(name="kraft.version", min_supported_version=0, max_supported_version=1)],
    )
    assert world.send(request).error_code == error_codes.NONE
    assert world.image.controllers[3].features["kraft.version"] == (0, 1)
    old = ControllerWorld(level=14).send(request)
    assert old.error_code == error_codes.UNSUPPORTED_VERSION


def test_old_levels_register_without_directories() -> None:
    world = ControllerWorld(level=14)
    world.register(1, log_dirs=[])
    assert world.image.brokers[1].directories == ()
    assert world.image.cluster_id == CLUSTER_ID
