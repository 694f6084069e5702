"""Both halves of GSSAPI over a played security context: who is logged in, and when nobody is."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kpybroker.machines.sasl.exchange import AuthenticationFailed, InvalidCredentials, TryAgain
from kpybroker.machines.sasl.gssapi import OFFER, GssapiClient, GssapiServer, GssFailure
from kpybroker.machines.sasl.kerberos_names import ShortNamer

NAMER = ShortNamer(["DEFAULT"], "REALM")
TICKET, ANSWER = b"ticket of alice", b"proof of the server"


class Played:
    """A context whose protection of messages is a prefix, and whose tickets are texts."""

    def __init__(self, *, is_server: bool, is_mutual: bool = True, code: int = 0) -> None:
        self.is_complete = False
        self._is_server = is_server
        self._is_mutual = is_mutual
        self._code = code
        self._is_begun = False

    def step(self, token: bytes) -> bytes:
        if self._is_server:
            if token != TICKET:
                raise GssFailure("no ticket", self._code)
            self.is_complete = True
            return ANSWER if self._is_mutual else b""
        if not self._is_begun:
            self._is_begun = True
            self.is_complete = not self._is_mutual
            return TICKET
        if token != ANSWER:
            raise GssFailure("no server")
        self.is_complete = True
        return b""

    def initiator(self) -> str:
        return "alice@REALM"

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped " + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"wrapped "):
            raise GssFailure("not wrapped")
        return message.removeprefix(b"wrapped ")


def server(**options: bool) -> GssapiServer:
    return GssapiServer(lambda: Played(is_server=True, **options), NAMER)


@pytest.mark.parametrize("is_mutual", [True, False])
def test_a_client_and_a_server_agree_on_no_layer(is_mutual: bool) -> None:
    there = server(is_mutual=is_mutual)
    client = GssapiClient(lambda: Played(is_server=False, is_mutual=is_mutual))
    message: bytes | None = client.first()
    count = 0
    while message is not None:
        assert not there.is_complete
        message = client.respond(there.respond(message))
        count += 1
    assert (there.is_complete, there.authorization_id, client.is_complete) == (True, "alice", True)
    assert count == (3 if is_mutual else 2)


def offered() -> GssapiServer:
    """A server that has offered its layers."""
    there = server()
    assert there.respond(TICKET) == ANSWER
    assert there.respond(b"") == b"wrapped \x01\0\0\0"
    return there


@pytest.mark.parametrize("authorization_id", ["", "alice@REALM", "alice", "admin"])
def test_the_principal_counts_whatever_name_the_client_asks_for(authorization_id: str) -> None:
    there = offered()
    assert there.respond(b"wrapped " + OFFER + authorization_id.encode()) == b""
    assert there.authorization_id == "alice"


@pytest.mark.parametrize("choice", [b"", b"\x01", b"\0\0\0\0", b"\x02\0\xff\xff", b"\x04\0\xff\xff", b"\x03\0\0\0"])
def test_any_other_choice_is_refused(choice: bytes) -> None:
    there = offered()
    with pytest.raises(InvalidCredentials):
        there.respond(b"wrapped " + choice)
    assert not there.is_complete


def test_a_choice_without_protection_is_refused() -> None:
    there = offered()
    with pytest.raises(InvalidCredentials):
        there.respond(OFFER)
    assert not there.is_complete


@pytest.mark.parametrize(
    ("code", "is_retriable"), [(0, False), (7, False), (21, True), (31, False), (33, True), (34, True)]
)
def test_retriable_gssapi_failures_are_recognised(code: int, is_retriable: bool) -> None:
    there = GssapiServer(lambda: Played(is_server=True, code=code), NAMER)
    with pytest.raises(AuthenticationFailed) as failed:
        there.respond(b"junk")
    assert isinstance(failed.value, TryAgain) is is_retriable
    assert isinstance(failed.value, InvalidCredentials) is not is_retriable


@given(
    some.lists(some.sampled_from([TICKET, ANSWER, b"", OFFER, b"wrapped " + OFFER, b"wrapped ", b"junk"]), max_size=6)
)
def test_a_gssapi_login_needs_a_ticket_and_a_security_layer_choice(messages: list[bytes]) -> None:
    there = server()
    try:
        for message in messages:
            there.respond(message)
            if there.is_complete:
                break
    except AuthenticationFailed:
        assert not there.is_complete
    if there.is_complete:
        assert messages[:3] == [TICKET, b"", b"wrapped " + OFFER]


def client(*challenges: bytes) -> Callable[[], None]:
    def play() -> None:
        there = GssapiClient(lambda: Played(is_server=False))
        assert there.first() == TICKET
        for challenge in challenges:
            there.respond(challenge)
        assert there.is_complete

    return play


@pytest.mark.parametrize(
    "challenges",
    [
        (b"junk",),
        (ANSWER, b"\x01\0\0\0"),
        (ANSWER, b"wrapped "),
        (ANSWER, b"wrapped \x04\0\xff\xff"),
        (ANSWER, b"wrapped \x01"),
    ],
)
def test_a_client_refuses_a_server_that_proves_nothing_or_demands_a_layer(challenges: tuple[bytes, ...]) -> None:
    with pytest.raises(AuthenticationFailed):
        client(*challenges)()


def test_a_client_without_tickets_says_so() -> None:
    def no_context() -> Played:
        raise GssFailure("no ticket for alice")

    with pytest.raises(AuthenticationFailed, match="no ticket for alice"):
        GssapiClient(no_context).first()
