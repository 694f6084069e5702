"""Tokens of a client: where they come from, when the next one is due, and what is never shown."""

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.security.oauth.access_tokens import AccessToken, KeptToken, new_token, read_claims
from kpybroker.security.oauth.fetching import FetchFailed
from kpybroker.security.oauth.grants import ClientCredentials
from kpybroker.security.oauth.missing_keys import AGAIN_AFTER_MS, LONGEST_ID, MOST_IDS, MissingKeys
from kpybroker.security.oauth.token_login import (
    CLIENT_ID,
    CLIENT_SECRET,
    HANDLER,
    RETRIEVER,
    SCOPE,
    SECURED_HANDLER,
    TOKEN_URL,
    UNSECURED_HANDLER,
    URLENCODE,
    RefreshWindow,
    TokenLogin,
    read_token_login,
)
from kpybroker.testing.oidc import TOKEN, OidcProvider

SECRET = "the / secret"


@pytest.fixture(scope="module")
def provider() -> Iterator[OidcProvider]:
    with OidcProvider(algorithm="ES256", clients={"me": SECRET}) as provider:
        yield provider


def login(provider: OidcProvider, **changes: str) -> TokenLogin:
    configured = {TOKEN_URL: provider.token_url, CLIENT_ID: "me", CLIENT_SECRET: SECRET, **changes}
    configured["sasl.login.retry.backoff.max.ms"] = "200"
    return read_token_login(configured.get, {}, None)


def test_a_token_comes_by_client_credentials(provider: OidcProvider) -> None:
    for changes in ({}, {URLENCODE: "true"}, {SCOPE: "a b"}):
        token = new_token(login(provider, **changes))
        assert token.principal == "me"
        assert token.expires_ms > time.time() * 1000
        assert token.text not in repr(token)


def test_the_older_options_of_the_jaas_config_count_where_configs_are_not_set(provider: OidcProvider) -> None:
    options = {"clientId": "me", "clientSecret": SECRET, "scope": "x", "extension_trace": "1"}
    found = read_token_login({TOKEN_URL: provider.token_url}.get, options, None)
    assert found.client == ClientCredentials("me", SECRET, "x")
    assert found.extensions == (("trace", "1"),)
    assert SECRET not in repr(found) + repr(found.client)
    assert new_token(found).principal == "me"


def test_a_failure_of_the_provider_is_tried_again_and_a_wrong_secret_is_not(provider: OidcProvider) -> None:
    provider.fail(503, 2)
    assert new_token(login(provider)).principal == "me"
    asked = provider.requests.count(TOKEN)
    with pytest.raises(FetchFailed, match=r"status 401.*invalid_client") as caught:
        new_token(login(provider, **{CLIENT_SECRET: "hunter2"}))
    assert provider.requests.count(TOKEN) == asked + 1
    assert "hunter2" not in str(caught.value)


def test_a_file_holds_a_token_that_others_renew(provider: OidcProvider, tmp_path: Path) -> None:
    file = tmp_path / "token"
    for name in ("alice", "bob"):
        file.write_text(provider.token(name) + "\n")
        assert new_token(read_token_login({TOKEN_URL: f"file://{file}"}.get, {}, None)).principal == name
    file.write_text("no token")
    with pytest.raises(FetchFailed, match="not a JWT of three parts"):
        new_token(read_token_login({TOKEN_URL: f"file://{file}"}.get, {}, None))


def test_tokens_without_a_signature_are_made_of_options() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "1.5",
        "unsecuredLoginListClaim_scope": ",a,b",
        "unsecuredLoginLifetimeSeconds": "10",
        "unsecuredLoginExtension_trace": "x",
    }
    found = read_token_login({HANDLER: UNSECURED_HANDLER}.get, options, None)
    token = new_token(found)
    assert token.principal == "alice"
    assert 5_000 < token.expires_ms - time.time() * 1000 <= 10_000
    assert found.extensions == (("trace", "x"),)


@pytest.mark.parametrize(
    ("configured", "options", "words"),
    [
        ({}, {}, "unsecuredLoginStringClaim_sub is missing"),
        ({}, {"unsecuredLoginStringClaim_exp": "1", "unsecuredLoginStringClaim_sub": "a"}, "is set by"),
        ({}, {"unsecuredLoginNumberClaim_x": "y", "unsecuredLoginStringClaim_sub": "a"}, "is not a number"),
        ({HANDLER: "org.example.Mine"}, {}, "is a Java class"),
        ({HANDLER: SECURED_HANDLER}, {}, f"{TOKEN_URL} is missing"),
        ({TOKEN_URL: "https://x/token"}, {}, f"{CLIENT_ID} is missing"),
        ({TOKEN_URL: "https://x/token", CLIENT_ID: "me"}, {}, f"{CLIENT_SECRET} is missing"),
        ({TOKEN_URL: "http://x/token"}, {}, "use https"),
        ({RETRIEVER: "org.example.Mine"}, {}, "is not available"),
        ({TOKEN_URL: "file:///x"}, {"extension_auth": "x"}, "cannot be sent"),
    ],
)
def test_a_source_that_cannot_be_used_is_refused_in_one_line(
    configured: dict[str, str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as caught:
        read_token_login(configured.get, options, None)
    assert words in str(caught.value)


def test_a_kept_token_is_fetched_again_when_its_refresh_is_due(provider: OidcProvider) -> None:
    kept = KeptToken(login(provider))
    first = kept.get()
    assert kept.get() is first
    provider.lifetime_s = 0
    try:
        brief = KeptToken(login(provider))
        asked = provider.requests.count(TOKEN)
        brief.get()
        brief.get()
        assert provider.requests.count(TOKEN) == asked + 2
    finally:
        provider.lifetime_s = 3600


HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("begins_ms", "now_ms", "random", "due_ms"),
    [
        (0, 0, 0, 0.8 * HOUR_MS),
        (0, 0, 1, 0.85 * HOUR_MS),
        (None, 0, 0, 0.8 * HOUR_MS),
        (-9 * HOUR_MS, 0, 0, 60_000),
        (0, HOUR_MS - 300_000, 0, HOUR_MS - 60_000),
        (0, HOUR_MS - 100_000, 0, HOUR_MS - 20_000),
    ],
    ids=["usual", "jitter", "no iat", "minimal period", "no room for the period", "no room for the buffer"],
)
def test_the_next_token_is_due_as_in_kafka(begins_ms: int | None, now_ms: int, random: float, due_ms: float) -> None:
    assert RefreshWindow().due_ms(begins_ms, HOUR_MS, now_ms, random) == due_ms


@given(st.integers(0, 10**13), st.integers(1, 10**9), st.integers(0, 10**9), st.floats(0, 1))
def test_the_next_token_is_due_before_this_one_expires(now_ms: int, left_ms: int, age_ms: int, random: float) -> None:
    expires_ms = now_ms + left_ms
    due_ms = RefreshWindow().due_ms(now_ms - age_ms, expires_ms, now_ms, random)
    assert now_ms <= due_ms <= expires_ms


def claims(**found: object) -> str:
    return f"h.{urlsafe_b64encode(json.dumps(found).encode()).rstrip(b'=').decode()}.s"


def test_the_claims_of_a_token_are_read() -> None:
    text = claims(sub=" me ", exp=10, iat=5.5)
    assert read_claims(text) == AccessToken(text, "me", 5_500, 10_000)
    assert read_claims(claims(client_id="x", exp=10), "client_id").begins_ms is None


@pytest.mark.parametrize(
    "text", ["", "a.b", "a.b.c", claims(sub="me"), claims(exp=1), claims(sub=5, exp=1), "..", claims(sub="me", exp="1")]
)
def test_a_text_that_is_no_token_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(FetchFailed) as caught:
        read_claims(text)
    assert not text or text not in str(caught.value)


def test_keys_that_are_missing_are_asked_for_once_a_minute_and_only_some_are_remembered() -> None:
    missing = MissingKeys()
    assert missing.should_ask("a", 0)
    assert not missing.should_ask("a", AGAIN_AFTER_MS - 1)
    assert missing.should_ask("a", AGAIN_AFTER_MS)
    assert not missing.should_ask("x" * (LONGEST_ID + 1), 0)
    missing.found(["a", None])
    assert missing.should_ask("a", AGAIN_AFTER_MS + 1)
    for number in range(MOST_IDS):
        assert missing.should_ask(str(number), AGAIN_AFTER_MS + 2)
    assert missing.should_ask("a", AGAIN_AFTER_MS + 3)
    assert not missing.should_ask(str(MOST_IDS - 1), AGAIN_AFTER_MS + 3)
