"""A heartbeat may name the brokers that do not answer its sender, and Apache Kafka reads over that."""

from typing import Any
from uuid import UUID

import pytest
from controller_world import ControllerWorld
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.controller.heartbeats import SilenceReport
from kpybroker.machines.metadata.broker import BrokerRegistration, reporting_incarnation
from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest, SilentBroker
from kpywire import codec, error_codes
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.metadata_records.register_broker_record import RegisterBrokerRecord

VERSIONS = range(3)
FACTS: dict[str, Any] = {
    "broker_id": 2,
    "broker_epoch": 20,
    "current_metadata_offset": 30,
    "want_fence": False,
    "want_shut_down": False,
}


def reporting(*silent: SilentBroker, **changes: int) -> ReportingHeartbeatRequest:
    return ReportingHeartbeatRequest(**{**FACTS, **changes}, silent_brokers=list(silent))


def silent_broker(broker_id: int, silent_ms: int = 1_500) -> SilentBroker:
    return SilentBroker(broker_id=broker_id, silent_ms=silent_ms, is_unanswered=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_report_is_read_over_by_a_program_that_does_not_know_it(version: int) -> None:
    encoded = codec.encode(reporting(silent_broker(1), silent_broker(3)), version)
    assert codec.decode(BrokerHeartbeatRequest, version, encoded, 0) == BrokerHeartbeatRequest(**FACTS)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_without_silent_brokers_has_kafkas_bytes(version: int) -> None:
    assert codec.encode(reporting(), version) == codec.encode(BrokerHeartbeatRequest(**FACTS), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_heartbeat_of_apache_kafka_reports_no_broker(version: int) -> None:
    encoded = codec.encode(BrokerHeartbeatRequest(**FACTS), version)
    assert codec.decode(ReportingHeartbeatRequest, version, encoded, 0) == reporting()


@given(st.binary(min_size=16, max_size=16))
def test_a_broker_that_reports_silence_is_known_by_its_incarnation(random_id: bytes) -> None:
    assert registered(reporting_incarnation(random_id)).reports_silence


@given(st.uuids(version=4))
def test_no_uuid_of_version_4_is_taken_for_one(random_id: UUID) -> None:
    assert not registered(b"kpyb" + random_id.bytes[4:]).reports_silence
    assert not registered(random_id.bytes).reports_silence


def registered(incarnation_id: bytes) -> BrokerRegistration:
    record = RegisterBrokerRecord(
        broker_id=1, broker_epoch=1, incarnation_id=incarnation_id, end_points=[], features=[], rack=None
    )
    return BrokerRegistration(record, 1)


@pytest.fixture
def world() -> ControllerWorld:
    return ControllerWorld().start_brokers(1, 2, 3)


def beat(world: ControllerWorld, *silent: SilentBroker) -> None:
    epoch = world.image.brokers[2].epoch
    answer = world.send(reporting(*silent, broker_epoch=epoch, current_metadata_offset=len(world.log)))
    assert answer.error_code == error_codes.NONE


def test_the_controller_knows_since_when_a_broker_is_silent(world: ControllerWorld) -> None:
    beat(world, silent_broker(1), silent_broker(3, -5))
    assert world.state.heartbeats.silent == {
        2: {1: SilenceReport(world.now_ms - 1_500, True), 3: SilenceReport(world.now_ms, True)}
    }


def test_a_report_is_replaced_by_the_next_heartbeat(world: ControllerWorld) -> None:
    beat(world, silent_broker(1))
    beat(world)
    assert world.state.heartbeats.silent == {}


def test_brokers_that_are_not_registered_and_the_sender_itself_are_not_noted(world: ControllerWorld) -> None:
    beat(world, silent_broker(99), silent_broker(2))
    assert world.state.heartbeats.silent == {}


def test_a_report_of_an_earlier_incarnation_is_refused(world: ControllerWorld) -> None:
    answer = world.send(reporting(silent_broker(1), broker_epoch=0))
    assert answer.error_code == error_codes.STALE_BROKER_EPOCH
    assert world.state.heartbeats.silent == {}
