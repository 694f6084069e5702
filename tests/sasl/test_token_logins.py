"""Logins by delegation token: the owner's name, the token's expiry, a credential that is derived once and forgotten."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.sasl import token_logins
from kpybroker.sasl.delegation_token import TokenSecret
from kpybroker.sasl.exchange import AuthenticationFailed
from kpybroker.sasl.scram import MECHANISMS, SCRAM_SHA_256, ScramMechanism
from kpybroker.sasl.scram_client import ScramClient
from kpybroker.sasl.scram_server import ScramLogin, ScramServer
from kpybroker.sasl.token_logins import TokenLogins

SECRET = TokenSecret("a key of all nodes")


class Tokens(dict[str, Any]):
    def __init__(self) -> None:
        self.salts = 0
        self.logins = TokenLogins(SECRET, self.get, self.salt)

    def salt(self) -> bytes:
        self.salts += 1
        return b"salt %d" % self.salts

    def add(self, token_id: str, owner: str = "User:alice", expiry_ms: int = 100, max_ms: int = 200) -> None:
        self[token_id] = SimpleNamespace(owner=owner, expiration_timestamp=expiry_ms, max_timestamp=max_ms)

    def log_in(self, mechanism: ScramMechanism, token_id: str, password: str, *, by_token: bool = True) -> ScramServer:
        def find(name: str, is_token: bool) -> ScramLogin | None:
            return self.logins.find(mechanism, name) if is_token else None

        server = ScramServer(mechanism, find, "server", b"secret")
        client = ScramClient(mechanism, token_id, password, "client", by_token=by_token)
        final = client.respond(server.respond(client.first()))
        assert final is not None
        client.respond(server.respond(final))
        assert client.is_complete
        return server


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_the_owner_logs_in_with_the_hmac_until_the_token_expires(mechanism: ScramMechanism) -> None:
    tokens = Tokens()
    tokens.add("t1")
    server = tokens.log_in(mechanism, "t1", SECRET.password_of("t1"))
    assert (server.authorization_id, server.token_authenticated, server.expires_ms) == ("alice", True, 100)
    tokens.add("t1", expiry_ms=300)
    assert tokens.log_in(mechanism, "t1", SECRET.password_of("t1")).expires_ms == 200
    assert tokens.salts == 1, "the credential is derived once"


def test_nobody_else_logs_in() -> None:
    tokens = Tokens()
    tokens.add("t1")
    tokens.add("of-a-group", owner="Group:alice")
    right = SECRET.password_of("t1")
    for token_id, password, by_token in (
        ("t1", SECRET.password_of("t2"), True),
        ("t1", TokenSecret("another key").password_of("t1"), True),
        ("t1", right, False),
        ("t2", SECRET.password_of("t2"), True),
        ("of-a-group", SECRET.password_of("of-a-group"), True),
    ):
        with pytest.raises(AuthenticationFailed) as failed:
            tokens.log_in(SCRAM_SHA_256, token_id, password, by_token=by_token)
        assert password not in failed.value.reason


def test_credentials_are_forgotten_with_their_token_and_when_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_logins, "MOST_KEPT", 2)
    monkeypatch.setattr(token_logins, "MIN_ITERATIONS", 1)
    tokens = Tokens()
    for token_id in ("t1", "t2", "t1", "t3", "t1"):
        tokens.add(token_id)
        assert tokens.logins.find(SCRAM_SHA_256, token_id) is not None
    assert tokens.salts == 3, "t1 was used after t2, which made room for t3"
    tokens.logins.find(SCRAM_SHA_256, "t2")
    assert tokens.salts == 4
    del tokens["t2"]
    tokens.logins.forget(["t2"])
    assert tokens.logins.find(SCRAM_SHA_256, "t2") is None
    tokens.add("t2")
    tokens.logins.find(SCRAM_SHA_256, "t2")
    assert tokens.salts == 5
