"""Logins by delegation token: the owner's name, the token's expiry, a credential that is derived once and forgotten."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.machines.sasl import token_logins
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.machines.sasl.exchange import AuthenticationFailed
from kpybroker.machines.sasl.scram import MECHANISMS, SCRAM_SHA_256, ScramCredential, ScramMechanism
from kpybroker.machines.sasl.scram_client import ScramClient
from kpybroker.machines.sasl.scram_server import ScramLogin, ScramServer
from kpybroker.machines.sasl.token_logins import TokenLogins

SECRET = TokenSecret("a key of all nodes")


class Tokens(dict[str, Any]):
    def __init__(self) -> None:
        self.derived = 0
        self.logins = TokenLogins(SECRET, self.get)
        derive = self.logins._derived

        def counted(mechanism: ScramMechanism, token_id: str) -> ScramCredential:
            self.derived += 1
            return derive(mechanism, token_id)

        self.logins._derived = counted  # type: ignore[method-assign]

    def add(self, token_id: str, owner: str = "User:alice", expiry_ms: int = 100, max_ms: int = 200) -> None:
        self[token_id] = SimpleNamespace(owner=owner, expiration_timestamp=expiry_ms, max_timestamp=max_ms)

    def log_in(self, mechanism: ScramMechanism, token_id: str, password: str, *, by_token: bool = True) -> ScramServer:
        def find(name: str, is_token: bool) -> ScramLogin | None:
            return self.logins.find(mechanism, name) if is_token else None

        server = ScramServer(mechanism, find, "server", lambda name, _: self.logins.made_up(mechanism, name))
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
    assert tokens.derived == 1, "the credential is derived once"


def test_other_credentials_are_refused() -> None:
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
    assert tokens.derived == 3, "t1 was used after t2, which made room for t3"
    tokens.logins.find(SCRAM_SHA_256, "t2")
    assert tokens.derived == 4
    del tokens["t2"]
    tokens.logins.forget(["t2"])
    assert tokens.logins.find(SCRAM_SHA_256, "t2") is None
    tokens.add("t2")
    tokens.logins.find(SCRAM_SHA_256, "t2")
    assert tokens.derived == 5


def test_a_challenge_is_the_same_on_every_node_and_does_not_say_whether_there_is_such_a_token() -> None:
    one, other = Tokens(), Tokens()
    for tokens in (one, other):
        tokens.add("t1")
    for mechanism in MECHANISMS.values():
        found = [tokens.logins.find(mechanism, "t1") for tokens in (one, other)]
        salts = {each.credential.salt for each in found if each is not None}
        made_up = {tokens.logins.made_up(mechanism, "t1").salt for tokens in (one, other)}
        assert salts == made_up, "so it is when the token is there, and when it is gone"
        assert len(salts) == 1
        assert one.logins.made_up(mechanism, "t1").iterations == found[0].credential.iterations  # type: ignore[union-attr]
    assert SECRET.salt_of("SCRAM-SHA-256", "t1") not in SECRET.hmac_of("t1")
