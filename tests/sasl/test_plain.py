"""PLAIN: what the server accepts, and the text for each refusal (``PlainSaslServer``)."""

import pytest

from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.plain import PlainClient, PlainServer

PASSWORDS = {"alice": "wonder", "bob": ""}


def test_a_right_password_logs_in() -> None:
    server = PlainServer(lambda: PASSWORDS)
    client = PlainClient("alice", "wonder")
    assert not client.is_complete
    assert server.respond(client.first()) == b""
    assert client.is_complete, "it waits for nothing more than the verdict"
    assert (server.is_complete, server.authorization_id) == (True, "alice")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"alice\0wonder", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0bob\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0wrong", "Authentication failed: Invalid username or password"),
        (
            b"bob\0alice\0wonder",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
        (b"\xff\0a\0b", "Invalid SASL/PLAIN response: it is not UTF-8"),
    ],
)
def test_everything_else_is_refused_with_its_text(message: bytes, text: str) -> None:
    server = PlainServer(lambda: PASSWORDS)
    with pytest.raises(AuthenticationFailed) as failed:
        server.respond(message)
    assert failed.value.text == text
    assert "wrong" not in failed.value.reason.replace("wrong password", "")
    assert not server.is_complete
