"""A broker registers, beats, is unfenced, and leaves when it is let go."""

from typing import Any

import pytest

from kpybroker.hosts.lifecycle import RETRY_MS, BrokerState, Lifecycle, Times
from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest, SilentBroker
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kpywire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

INTERVAL_MS = 2000
DIRECTORY_MS = 30_000
PATIENCE_MS = 10 * RETRY_MS


class Conversation:
    """A lifecycle and the controller it talks to, which answers when the test says so."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.asked: list[Any] = []
        self.replies: list[Any] = []
        self.refusals: list[str] = []
        self.cordoned: list[bytes] = []
        self.offline: list[bytes] = []
        self.unfenced = self.let_go = 0
        registration = BrokerRegistrationRequest(
            broker_id=3, cluster_id="c", incarnation_id=bytes(16), listeners=[], features=[], rack=None, log_dirs=[]
        )
        self.any_online = True
        self.lifecycle = Lifecycle(
            self.scheduler,
            self.send,
            registration,
            lambda: 77,
            self,
            self.refusals.append,
            Times(INTERVAL_MS, PATIENCE_MS, DIRECTORY_MS),
        )
        self.lifecycle.start(self.on_unfenced)

    def offline_ids(self) -> list[bytes]:
        return list(self.offline)

    def cordoned_ids(self) -> list[bytes]:
        return self.cordoned

    def is_any_online(self) -> bool:
        return self.any_online

    def on_unfenced(self) -> None:
        self.unfenced += 1

    def on_let_go(self) -> None:
        self.let_go += 1

    def send(self, request: Any, reply: Any) -> None:
        self.asked.append(request)
        self.replies.append(reply)

    def answer(self, response: Any) -> None:
        self.replies.pop(0)(response)

    def registered(self) -> None:
        self.answer(BrokerRegistrationResponse(error_code=error_codes.NONE, broker_epoch=9))

    def heard(self, **fields: Any) -> None:
        defaults = {"error_code": error_codes.NONE, "is_caught_up": True, "is_fenced": False, "should_shut_down": False}
        self.answer(BrokerHeartbeatResponse(**{**defaults, **fields}))


def test_clients_are_served_once_the_broker_is_unfenced() -> None:
    talk = Conversation()
    assert isinstance(talk.asked[0], BrokerRegistrationRequest)
    talk.registered()
    beat = talk.asked[1]
    assert isinstance(beat, BrokerHeartbeatRequest)
    assert (beat.broker_id, beat.broker_epoch, beat.current_metadata_offset) == (3, 9, 77)
    talk.heard(is_fenced=True)
    assert talk.unfenced == 0
    assert talk.lifecycle.state == BrokerState.RECOVERY
    talk.scheduler.advance(RETRY_MS)
    talk.heard()
    assert talk.unfenced == 1
    assert talk.lifecycle.state == BrokerState.RUNNING


def test_heartbeats_go_on_at_their_interval() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    for beats in range(3, 6):
        talk.scheduler.advance(INTERVAL_MS)
        assert len(talk.asked) == beats
        talk.heard()
    assert talk.unfenced == 1


def test_heartbeats_name_silent_brokers_while_there_are_some() -> None:
    talk = Conversation()
    silent = [SilentBroker(broker_id=1, silent_ms=1_500, is_unanswered=True)]
    talk.lifecycle.report_silent(lambda: silent)
    talk.registered()
    talk.heard()
    assert isinstance(talk.asked[-1], ReportingHeartbeatRequest)
    assert (talk.asked[-1].broker_epoch, talk.asked[-1].silent_brokers) == (9, silent)
    silent = []
    talk.lifecycle.report()
    assert isinstance(talk.asked[-1], BrokerHeartbeatRequest)


def test_a_refused_registration_is_reported_and_a_retriable_one_repeated() -> None:
    talk = Conversation()
    talk.answer(BrokerRegistrationResponse(error_code=error_codes.NOT_CONTROLLER))
    talk.scheduler.advance(RETRY_MS)
    assert len(talk.asked) == 2
    assert talk.refusals == []
    talk.answer(BrokerRegistrationResponse(error_code=error_codes.UNSUPPORTED_VERSION))
    assert len(talk.refusals) == 1


@pytest.mark.parametrize("registered", [True, False])
def test_a_broker_that_is_not_registered_in_time_stops_with_the_reason(registered: bool) -> None:
    talk = Conversation()
    talk.lifecycle.limit()
    for _ in range(4):
        talk.answer(BrokerRegistrationResponse(error_code=error_codes.DUPLICATE_BROKER_REGISTRATION))
        talk.scheduler.advance(RETRY_MS)
    if registered:
        talk.registered()
    talk.scheduler.advance(10 * RETRY_MS)
    assert ["already in use" in line for line in talk.refusals] == ([] if registered else [True]), talk.refusals


def test_a_stop_waits_for_the_controller_to_let_go() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    talk.lifecycle.stop(talk.on_let_go)
    assert talk.asked[-1].want_shut_down
    talk.heard()
    assert talk.let_go == 0
    talk.scheduler.advance(RETRY_MS)
    assert talk.asked[-1].want_shut_down
    talk.heard(should_shut_down=True)
    assert talk.let_go == 1
    asked = len(talk.asked)
    talk.scheduler.advance(10 * INTERVAL_MS)
    assert len(talk.asked) == asked


def test_a_broker_that_never_registered_stops_at_once() -> None:
    talk = Conversation()
    talk.lifecycle.stop(talk.on_let_go)
    assert talk.let_go == 1


def test_a_living_broker_registers_anew_when_the_metadata_have_forgotten_it() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    talk.lifecycle.register_again()
    again = talk.asked[-1]
    assert isinstance(again, BrokerRegistrationRequest)
    assert again.previous_broker_epoch == 9
    talk.answer(BrokerRegistrationResponse(error_code=error_codes.NONE, broker_epoch=12))
    assert talk.asked[-1].broker_epoch == 12
    talk.heard(is_fenced=True)
    talk.scheduler.advance(RETRY_MS)
    talk.heard()
    assert talk.unfenced == 1
    assert talk.lifecycle.state == BrokerState.RUNNING


def test_a_broker_without_a_log_directory_stops_at_once() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    talk.any_online = False
    talk.lifecycle.stop(talk.on_let_go)
    assert talk.let_go == 1


def test_a_broker_that_stops_does_not_register_anew() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    talk.lifecycle.stop(talk.on_let_go)
    asked = len(talk.asked)
    talk.lifecycle.register_again()
    assert len(talk.asked) == asked


def test_news_of_directories_do_not_wait_for_the_next_heartbeat() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    talk.cordoned = [b"d" * 16]
    talk.lifecycle.report()
    assert talk.asked[-1].cordoned_log_dirs == [b"d" * 16]
    talk.heard()
    asked = len(talk.asked)
    talk.scheduler.advance(INTERVAL_MS)
    assert len(talk.asked) == asked + 1


def test_a_broker_that_cannot_report_a_failed_directory_stops() -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    for name in (b"a", b"b"):
        talk.offline.append(name * 16)
        talk.lifecycle.report()
        assert talk.asked[-1].offline_log_dirs == talk.offline
        talk.scheduler.advance(DIRECTORY_MS / 2)
        assert talk.refusals == []
        if name == b"a":
            talk.heard()
            assert not talk.replies
    talk.heard(error_code=error_codes.NOT_CONTROLLER)
    talk.scheduler.advance(DIRECTORY_MS / 2 - 1)
    assert talk.refusals == []
    talk.scheduler.advance(1)
    assert talk.refusals == ["no controller learned within 30 s that a log directory failed"]


@pytest.mark.parametrize("ends", ["told", "stopped"])
def test_a_reported_failed_directory_or_a_stopped_broker_does_not_stop_the_node(ends: str) -> None:
    talk = Conversation()
    talk.registered()
    talk.heard()
    talk.offline.append(b"a" * 16)
    talk.lifecycle.report()
    if ends == "told":
        talk.heard()
    else:
        talk.lifecycle.close()
    talk.scheduler.advance(2 * DIRECTORY_MS)
    assert talk.refusals == []
