"""Logins by OAUTHBEARER on a node: what the wire sees and the log shows, and how the keys of a provider are kept.

Apache Kafka shows the same on the wire: compat-tests/security/test_oauth_wire.py.
"""

import json
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode

from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.sasl.oauthbearer import BearerClientFirst
from kpybroker.testing.oidc import JWKS, OidcProvider
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from support import oauth_wire
from support.raw_client import RawClient
from support.sasl_wire import CLOSED, Wire
from support.waiting import eventually


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider() as provider:
        yield provider


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, provider: OidcProvider) -> Iterator[RunningNode]:
    listeners = [f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *oauth_wire.LISTENERS)]
    directory = str(tmp_path_factory.mktemp("oauth"))
    further = {"log.dirs": directory, "connection.failed.authentication.delay.ms": "5"}
    node = RunningNode({**oauth_wire.properties(provider), "listeners": ",".join(listeners), **further})
    try:
        yield node
    finally:
        node.stop()


@pytest.mark.parametrize("case", oauth_wire.CASES, ids=lambda case: case.name)
def test_the_wire_sees_what_apache_kafka_shows(
    case: oauth_wire.Case, node: RunningNode, provider: OidcProvider
) -> None:
    assert oauth_wire.seen(case, node.node.ports, provider) == case.expected


@pytest.fixture
def own() -> Iterator[OidcProvider]:
    """A provider whose keys a test may change."""
    with OidcProvider(algorithm="ES256") as provider:
        yield provider


def refusal(settings: dict[str, str]) -> str:
    """The one line with which a start is refused."""
    try:
        RunningNode(settings).stop()
    except (ConfigError, StartRefused) as refused:
        return str(refused)
    raise AssertionError("it has started")


def one_listener(own: OidcProvider, directory: Path, **changes: str) -> dict[str, str]:
    found = {**own.broker_config(), "log.dirs": str(directory)}
    for name, text in changes.items():
        found[f"listener.name.oidc.{name.replace('__', '.')}"] = text
    return found


KEYS = "sasl__oauthbearer__jwks__endpoint__url"


def test_a_node_without_the_keys_of_its_provider_does_not_start(own: OidcProvider, tmp_path: Path) -> None:
    settings = one_listener(own, tmp_path)
    for status in (503, 404):
        own.fail(status)
        line = refusal(settings)
        assert line.startswith(f"the keys that sign OAUTHBEARER tokens cannot be fetched: {own.jwks_url} answers with")
        assert f"status {status}" in line
        assert "\n" not in line
    allowed = "kpybroker.oauthbearer.allowed.urls"
    for url, words in (
        (f"{own.issuer}/nothing", "answers with status 404"),
        ("http://127.0.0.1:1/jwks", "Connection refused"),
        (own.token_url.replace("/token", "/.well-known/openid-configuration"), "no member 'keys'"),
        (f"file://{tmp_path}/none.json", "No such file"),
    ):
        assert words in refusal({**one_listener(own, tmp_path, **{KEYS: url}), allowed: url})


def test_keys_are_fetched_for_an_unknown_id_once_a_minute_and_then_count(
    own: OidcProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = RunningNode(one_listener(own, tmp_path))
    try:
        before = own.requests.count(JWKS)
        with Wire(node.node.ports["OIDC"]) as wire:
            client = oauth_wire.Session(wire, own)
            client.shake()
            for _ in range(3):
                assert client.show(own.token(header={"kid": "made up"})) == oauth_wire.REFUSED
            eventually(lambda: own.requests.count(JWKS) == before + 1, "the keys")
            own.rotate_keys()
            assert client.show_signed() == oauth_wire.REFUSED
            eventually(lambda: client.show_signed() != oauth_wire.REFUSED, "a login")
            assert wire.metadata() == "served"
        assert own.requests.count(JWKS) == before + 2
        assert not [each for each in caplog.messages if "eyJ" in each]
    finally:
        node.stop()


def test_keys_are_fetched_now_and_then_and_kept_while_the_provider_fails(
    own: OidcProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kpybroker.login")
    times = {"refresh__ms": "100", "retry__backoff__ms": "1", "retry__backoff__max__ms": "1"}
    changes = {f"sasl__oauthbearer__jwks__endpoint__{name}": text for name, text in times.items()}
    node = RunningNode(one_listener(own, tmp_path, **changes))
    try:
        own.fail(503, 4)
        eventually(lambda: any("stay as they are" in each for each in caplog.messages), "a line")
        assert shown_once(node, own) == oauth_wire.ENTERED
        own.rotate_keys()
        eventually(
            lambda: any("keys that sign OAUTHBEARER tokens, from" in each for each in caplog.messages), "new keys"
        )
        assert shown_once(node, own) == oauth_wire.ENTERED
    finally:
        node.stop()


def shown_once(node: RunningNode, own: OidcProvider) -> Any:
    with Wire(node.node.ports["OIDC"]) as wire:
        client = oauth_wire.Session(wire, own)
        client.shake()
        return client.show_signed()


def test_a_provider_that_hangs_delays_no_client(own: OidcProvider, tmp_path: Path) -> None:
    node = RunningNode(one_listener(own, tmp_path))
    try:
        own.delay_s = 30
        before = own.requests.count(JWKS)
        with Wire(node.node.ports["OIDC"]) as wire:
            client = oauth_wire.Session(wire, own)
            client.shake()
            assert client.show(own.token(header={"kid": "made up"})) == oauth_wire.REFUSED
            eventually(lambda: own.requests.count(JWKS) > before, "a request that hangs")
            assert shown_once(node, own) == oauth_wire.ENTERED
    finally:
        node.stop()
        own.delay_s = 0


def test_keys_in_a_file_count_when_a_token_names_them(own: OidcProvider, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(own.key_set())
    url = f"file://{file}"
    node = RunningNode(
        {**one_listener(own, tmp_path / "data", **{KEYS: url}), "kpybroker.oauthbearer.allowed.urls": url}
    )
    try:
        assert shown_once(node, own) == oauth_wire.ENTERED
        own.rotate_keys()
        assert shown_once(node, own) == oauth_wire.REFUSED
        own.rotate_keys()
        file.write_text(own.key_set())
        eventually(lambda: shown_once(node, own) == oauth_wire.ENTERED, "the new key")
    finally:
        node.stop()


def test_an_authorization_id_without_end_is_answered_with_a_part_of_it(
    node: RunningNode, provider: OidcProvider
) -> None:
    with Wire(node.node.ports[oauth_wire.SIGNED]) as wire:
        client = oauth_wire.Session(wire, provider)
        client.shake()
        code, text, *_ = client.show(provider.token("alice"), "x" * 100_000)
        assert (code, len(text) < 2_000) == (58, True)


HOSTILE = {
    "500 KB": lambda _provider: "x" * 500_000,
    "500 KB of payload": lambda provider: f"{provider.token().split('.')[0]}.{'A' * 500_000}.AAAA",
    "a deep header": lambda _provider: f"{encoded(b'[' * 9_000)}.e30.AAAA",
    "a deep payload": lambda provider: f"{provider.token().split('.')[0]}.{encoded(b'[' * 300_000)}.AAAA",
    "many dots": lambda _provider: "." * 100_000 + "a",
    "two signatures": lambda provider: f"{provider.token()}.{provider.token().split('.')[2]}",
    "a number without end": lambda provider: provider.token(exp=10**4_000),
    "a huge exp": lambda provider: provider.token(exp=10**18),
    "exp as a text": lambda provider: provider.token(exp="4000000000"),
    "nbf in the future": lambda provider: provider.token(nbf=4_000_000_000),
    "keys of its own": lambda provider: signed_by_itself(provider),
    "a critical header": lambda provider: provider.token(header={"crit": ["kid"]}),
}


def encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def signed_by_itself(provider: OidcProvider) -> str:
    """A token that brings the key by which it is signed, and says where to find it."""
    with OidcProvider() as stranger:
        jwk = json.loads(stranger.key_set())["keys"][0]
        kid = json.loads(provider.key_set())["keys"][0]["kid"]
        header = {"jwk": jwk, "jku": stranger.jwks_url, "kid": kid}
        token = stranger.token(iss=provider.issuer, header=header)
        assert not stranger.requests
        return token


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tokens_are_refused_and_the_next_client_is_served(
    name: str, node: RunningNode, provider: OidcProvider, caplog: pytest.LogCaptureFixture
) -> None:
    token = HOSTILE[name](provider)
    for listener in (oauth_wire.SIGNED, oauth_wire.UNSIGNED):
        with Wire(node.node.ports[listener]) as wire:
            client = oauth_wire.Session(wire, provider)
            client.shake()
            assert client.show(token) in (oauth_wire.REFUSED, oauth_wire.BAD_MESSAGE)
            assert client.show_signed() in (oauth_wire.ENTERED, oauth_wire.REFUSED, CLOSED)
    assert not any("no key of the identity provider fits" in each for each in caplog.messages)
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert all(len(each) < 1_000 and "eyJ" not in each for each in caplog.messages)


@pytest.mark.parametrize("again", [False, True], ids=["a first login", "a login again"])
def test_requests_after_the_expiry_of_a_token_are_refused(
    node: RunningNode, provider: OidcProvider, *, again: bool
) -> None:
    """Within the clock skew such a token logs in, as on Apache Kafka, and its session is over at once: also for the
    requests that come with it."""
    with RawClient(node.node.ports[oauth_wire.SIGNED]) as raw:
        for expired in (False, True) if again else (True,):
            assert raw.call(SaslHandshakeRequest(mechanism=oauth_wire.NAME), 1).error_code == 0
            claims = {"iat": 1, "exp": int(time.time()) - 5} if expired else {}
            login = SaslAuthenticateRequest(auth_bytes=BearerClientFirst(provider.token("alice", **claims)).encode())
            metadata = b"".join(raw.frame(MetadataRequest(topics=[]), 12) for _ in range(3))
            raw.sock.sendall(raw.frame(login, 2) + metadata)
            answer = raw.receive(SaslAuthenticateRequest.KEY, 2)
            assert (answer.error_code, answer.session_lifetime_ms == 0) == (0, expired)
            if not expired:
                for _ in range(3):
                    raw.receive(MetadataRequest.KEY, 12)
        assert raw.is_closed()
