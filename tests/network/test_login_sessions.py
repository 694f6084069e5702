"""Connections that log in, and again before their session ends: a peer over links that a played server answers."""

import logging
import random
from collections.abc import Callable
from typing import Any

import pytest
from played_sasl_server import PASSWORD, USER, SaslServer, answered

from kpybroker.config.between_nodes import Credentials
from kpybroker.hosts.network.outgoing import NoListener, Unprotected
from kpybroker.hosts.network.patience import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, PatientConnect
from kpybroker.hosts.network.peer import NoResponse, Peer
from kpybroker.hosts.network.sessions import LATEST, LoginConnect
from kpybroker.node.assembly.connecting import account_of
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import api
from kpywire.header import decode_request_header
from kpywire.messages.api_versions import ApiVersionsResponse
from kpywire.messages.vote import VoteRequest, VoteResponse

LIFETIME_MS = 60_000
TIMEOUT_MS = 20_000.0


class Link:
    """A link to a server that answers the requests of logins; those of votes wait for the test."""

    def __init__(self, server: SaslServer, callbacks: tuple[Any, Any, Any]) -> None:
        self.server = server
        self.opened, self.taken, self.lost = callbacks
        self.keys: list[int] = []
        self.votes: list[bytes] = []
        self.unanswered: list[bytes] = []
        self.is_closed = False

    def send(self, frame: bytes) -> None:
        assert not self.is_closed
        key = decode_request_header(frame).api_key
        self.keys.append(key)
        if key == api.VOTE:
            self.votes.append(frame)
        else:
            self.unanswered.append(frame)

    def close(self) -> None:
        self.is_closed = True

    def play(self) -> None:
        """Answer everything but votes."""
        while self.unanswered and not self.is_closed:
            self.taken(self.server.take(self.unanswered.pop(0)))

    def vote(self, code: int = 0) -> None:
        """Answer the oldest vote."""
        self.taken(answered(self.votes.pop(0), VoteResponse(error_code=code, topics=[])))


class Played:
    """A peer that logs in, over played links."""

    def __init__(self, mechanism: str = "PLAIN", password: str = PASSWORD, **server: Any) -> None:
        self.scheduler = ManualScheduler()
        self.links: list[Link] = []
        self.answers: list[Any] = []
        self.mechanism = mechanism
        self.server = {"enabled": (mechanism,), "lifetime_ms": LIFETIME_MS, **server}
        account = account_of(Credentials(mechanism, USER, password, by_token=False))
        self.login = LoginConnect(self.scheduler, self.connect, account, random.Random(1))
        self.peer = Peer(
            self.scheduler, PatientConnect(self.scheduler, self.login, "INTERNAL"), "there", 9, "me", TIMEOUT_MS
        )

    def connect(self, _host: str, _port: int, opened: Any, taken: Any, lost: Any) -> Link:
        self.links.append(Link(SaslServer(**self.server), (opened, taken, lost)))
        return self.links[-1]

    def ask(self, done: Callable[[Any], object] | None = None) -> None:
        self.peer.send(VoteRequest(topics=[]), done or self.answers.append)

    def ready(self) -> Link:
        """A connection that is logged in and has one vote outstanding."""
        self.ask()
        self.links[-1].opened()
        self.play()
        return self.links[-1]

    def play(self) -> None:
        for _ in range(9):
            self.links[-1].play()
            self.scheduler.run()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_requests_are_sent_after_the_login(mechanism: str) -> None:
    played = Played(mechanism)
    link = played.ready()
    messages = 1 if mechanism == "PLAIN" else 2
    login = [api.API_VERSIONS, api.SASL_HANDSHAKE] + [api.SASL_AUTHENTICATE] * messages
    assert link.keys == [*login, api.API_VERSIONS, api.VOTE]
    link.vote()
    assert [each.error_code for each in played.answers] == [0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_node_logs_in_again_before_its_session_ends_and_every_request_is_answered_once(mechanism: str) -> None:
    played = Played(mechanism)
    link = played.ready()
    link.vote(1)
    played.scheduler.advance(int(LIFETIME_MS * 0.84))
    played.ask()
    login_keys = list(link.keys)
    played.scheduler.advance(int(LIFETIME_MS * (LATEST - 0.84)) + 1)
    played.ask()
    assert link.keys == login_keys, "it waits for the answer that is outstanding"
    link.vote(2)
    assert link.keys == [*login_keys, api.SASL_HANDSHAKE]
    played.ask()
    played.play()
    assert link.keys[-2:] == [api.VOTE, api.VOTE]
    link.vote(3)
    link.vote(4)
    assert [each.error_code for each in played.answers] == [1, 2, 3, 4]
    played.scheduler.advance(LIFETIME_MS)
    played.play()
    assert link.keys.count(api.SASL_HANDSHAKE) == 3, "and again, when nothing is asked"
    assert len(played.links) == 1


@pytest.mark.parametrize("user", [USER, "another"])
def test_another_account_counts_for_the_next_connection_and_its_password_for_the_next_login(user: str) -> None:
    played = Played()
    link = played.ready()
    link.vote()
    played.login.log_in_as(account_of(Credentials("PLAIN", user, "changed", by_token=False)))
    same = user == USER
    link.server = SaslServer(password="changed" if same else PASSWORD)
    played.scheduler.advance(int(LIFETIME_MS * LATEST))
    played.ask()
    played.play()
    link.vote()
    assert len(played.links) == 1, "a connection never changes its user"
    link.lost("gone")
    played.server |= {"user": user, "password": "changed"}
    played.scheduler.advance(LONGEST_PAUSE_MS)
    played.ready().vote()
    assert len(played.links) == 2
    assert [each.error_code for each in played.answers] == [0, 0, 0]


def test_the_reason_of_a_refusal_is_known_although_the_connection_closes_with_it() -> None:
    played = Played("SCRAM-SHA-256", password="wrong")
    played.ask()
    link = played.links[0]
    link.opened()
    for _ in range(3):
        link.taken(link.server.take(link.unanswered.pop(0)))
        played.scheduler.run()
    link.taken(link.server.take(link.unanswered.pop(0)))
    link.lost("the other side closed the connection")
    played.scheduler.run()
    (answer,) = played.answers
    assert "SASL_AUTHENTICATION_FAILED" in str(answer)


def test_a_login_again_that_fails_ends_the_connection_and_every_request_hears_of_it() -> None:
    played = Played()
    link = played.ready()
    link.vote()
    link.server = SaslServer(password="changed")
    played.scheduler.advance(int(LIFETIME_MS * LATEST))
    played.ask()
    played.play()
    assert link.is_closed
    assert isinstance(played.answers[1], NoResponse)
    assert "the login as 'broker' by PLAIN failed" in played.answers[1].reason


def test_a_login_that_fails_is_logged_once_and_tried_again_after_pauses(caplog: pytest.LogCaptureFixture) -> None:
    played = Played(password="wrong")
    with caplog.at_level(logging.INFO, "kpybroker.network"):
        for number in range(8):
            played.ask()
            if number:
                assert len(played.links) == number, "a pause"
                played.scheduler.advance(LONGEST_PAUSE_MS)
            played.links[-1].opened()
            played.play()
            assert isinstance(played.answers[-1], NoResponse)
            assert played.links[-1].is_closed
        assert len(caplog.messages) == 1
        assert "listener INTERNAL at there:9" in caplog.messages[0]
        assert "SASL_AUTHENTICATION_FAILED: 'Authentication failed: Invalid username or password'" in caplog.messages[0]
        assert "wrong" not in caplog.messages[0]
        played.server["password"] = "wrong"
        played.ask()
        played.scheduler.advance(LONGEST_PAUSE_MS)
        played.links[-1].opened()
        played.play()
        played.links[-1].vote()
        assert "succeed again" in caplog.messages[1]
        played.peer.close()
        played.ask()
        assert len(played.links) == 10, "no pause any more"


def test_a_port_that_is_closed_is_no_failed_login() -> None:
    played = Played()
    played.ask()
    played.links[-1].lost(NoListener("Connection refused"))
    assert played.answers[-1].has_no_listener
    played.ask()
    assert len(played.links) == 2, "no pause"


def test_a_server_that_hangs_up_during_the_login_makes_a_pause_with_a_hint(caplog: pytest.LogCaptureFixture) -> None:
    played = Played()
    played.ask()
    played.links[-1].opened()
    played.links[-1].lost("the other side closed the connection")
    assert "is its listener one with SASL?" in caplog.messages[0]
    played.ask()
    assert len(played.links) == 1
    played.scheduler.advance(FIRST_PAUSE_MS)
    assert len(played.links) == 2


def test_a_connection_that_is_closed_while_it_pauses_is_never_opened() -> None:
    played = Played()
    played.ask()
    played.links[-1].lost(Unprotected("the TLS handshake failed"))
    played.ask()
    played.peer.close()
    played.scheduler.advance(LONGEST_PAUSE_MS)
    assert len(played.links) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("steps", range(4))
def test_a_connection_that_is_closed_during_the_login_says_no_more(mechanism: str, steps: int) -> None:
    played = Played(mechanism)
    played.ask()
    link = played.links[-1]
    link.opened()
    for _ in range(steps):
        if link.unanswered:
            link.taken(link.server.take(link.unanswered.pop(0)))
    played.peer.close()
    sent = len(link.keys)
    played.scheduler.run()
    assert link.is_closed
    assert len(link.keys) == sent
    assert len(played.answers) == 1


def test_a_server_that_answers_what_was_not_asked_is_left() -> None:
    played = Played()
    played.ask()
    link = played.links[-1]
    link.opened()
    link.taken(answered(link.unanswered[0], ApiVersionsResponse(error_code=0, api_keys=[]))[:3])
    assert link.is_closed
    assert "does not speak Kafka's protocol" in played.answers[0].reason
