"""The heartbeats of brokers: sessions, connections, and how far brokers have read."""

from random import Random

from controller_world import ControllerWorld, FixedVersion

from kpybroker.machines.controller.heartbeats import BrokerSession, Heartbeats
from kpybroker.machines.controller.state import ControllerState, StaticSettings


def test_a_session_lasts_as_long_as_its_time_and_not_longer() -> None:
    heartbeats, session = Heartbeats(9_000), BrokerSession(1, 5)
    assert not heartbeats.has_valid_session(session, 0)
    heartbeats.contact(session, 1_000)
    assert heartbeats.has_valid_session(session, 10_000)
    assert heartbeats.expired(10_000) is None
    assert not heartbeats.has_valid_session(session, 10_001)
    assert heartbeats.expired(10_001) == session
    heartbeats.forget_session(session)
    assert heartbeats.expired(10_001) is None
    heartbeats.contact(session, 20_000)
    heartbeats.end(session)
    assert not heartbeats.has_valid_session(session, 20_000)


def test_sessions_last_longer_by_the_time_in_which_no_heartbeat_was_read() -> None:
    heartbeats, session, ended = Heartbeats(9_000), BrokerSession(1, 5), BrokerSession(2, 6)
    for each in (session, ended):
        heartbeats.contact(each, 0)
    heartbeats.end(ended)
    heartbeats.stood_still(5_000)
    assert heartbeats.expired(14_000) == ended
    heartbeats.forget_session(ended)
    assert heartbeats.expired(14_000) is None
    assert heartbeats.expired(14_001) == session


def test_a_connection_of_an_earlier_incarnation_does_not_end_that_of_this_one() -> None:
    heartbeats = Heartbeats(9_000)
    earlier, now = BrokerSession(1, 5), BrokerSession(1, 9)
    heartbeats.connected(earlier)
    assert heartbeats.is_connected(earlier)
    heartbeats.connected(now)
    heartbeats.disconnected(earlier)
    assert (heartbeats.is_connected(now), heartbeats.is_connected(earlier)) == (True, False)
    heartbeats.disconnected(now)
    assert not heartbeats.is_connected(now)


def test_a_controlled_shutdown_waits_for_what_was_written_when_it_began() -> None:
    heartbeats = Heartbeats(9_000)
    for broker_id, offset in ((1, 40), (2, 30), (3, 35)):
        heartbeats.touch(broker_id, offset, fenced=False)
    assert not heartbeats.is_shutting_down(3)
    heartbeats.begin_controlled_shutdown(3, 34)
    heartbeats.begin_controlled_shutdown(3, 99)
    assert heartbeats.is_shutting_down(3)
    assert heartbeats.controlled_shutdown_offset(3) == 33
    assert heartbeats.lowest_offset([1, 2]) == 30
    assert heartbeats.lowest_offset([1, 9]) == 40
    assert heartbeats.lowest_offset([]) is None
    heartbeats.touch(3, 36, fenced=False)
    assert heartbeats.is_shutting_down(3)
    heartbeats.touch(3, 36, fenced=True)
    assert not heartbeats.is_shutting_down(3)
    heartbeats.forget(1)
    assert heartbeats.lowest_offset([1, 2, 3]) == 30


def test_a_new_controller_knows_of_no_broker_how_far_it_has_read() -> None:
    """So a broker that shuts down waits for the first heartbeats of the others."""
    world = ControllerWorld().start_brokers(1, 2)
    state = ControllerState(
        world.image, StaticSettings(1), world.state.rules, Random(4), lambda: 0, FixedVersion(1), world.now_ms
    )
    assert state.heartbeats.lowest_offset([1, 2]) == -1
    state.heartbeats.touch(1, 50, fenced=False)
    assert state.heartbeats.lowest_offset([1, 2]) == -1
    broker = world.image.brokers[2]
    assert state.heartbeats.has_valid_session(BrokerSession(2, broker.epoch), world.now_ms)
    assert not state.heartbeats.has_valid_session(BrokerSession(1, world.image.brokers[1].epoch), world.now_ms), (
        "it itself"
    )
