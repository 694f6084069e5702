"""Signed tokens without Kafka at hand: what they say, and content that must not harm the broker that parses it."""

import json
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from joserfc.jws import serialize_compact

from kpybroker.machines.sasl.oauthbearer import LONGEST_MS, TokenRefused, ValidToken
from kpybroker.security.oauth.claims import ClaimRules, Claims, read_object
from kpybroker.security.oauth.key_set import BrokenKeySet, read_key_set
from kpybroker.security.oauth.signed_tokens import validate

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1000
KEY = ECKey.generate_key("P-256", {"kid": "1"})
KEYS = read_key_set(json.dumps({"keys": [KEY.as_dict(private=False)]}).encode())
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}


def signed(claims: dict[str, Any], **header: Any) -> str:
    return serialize_compact({"alg": "ES256", "kid": "1", **header}, json.dumps(claims), KEY)


def check(token: str, *missing: str | None) -> ValidToken:
    seen: list[str | None] = []
    try:
        return validate(token, KEYS, ClaimRules(), NOW_MS, seen.append)
    finally:
        assert seen == list(missing)


def test_a_token_names_its_principal_and_its_end() -> None:
    assert check(signed(CLAIMS)) == ValidToken("alice", (NOW_S + 60) * 1000)


def test_a_key_that_is_missing_is_reported() -> None:
    with pytest.raises(TokenRefused, match=r"no key of the identity provider fits the token \(alg='ES256', kid='2'\)"):
        check(signed(CLAIMS, kid="2"), "2")


@pytest.mark.parametrize("seconds", [LONGEST_MS // 1000 + 1, 10**18])
def test_a_life_without_end_is_refused(seconds: int) -> None:
    with pytest.raises(TokenRefused, match="out of range"):
        Claims({**CLAIMS, "exp": NOW_S + seconds}).check(ClaimRules(), NOW_MS)


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"1" * 10_000,
        b'{"a":NaN}',
        b'{"a":1,"a":2}',
        b"\xff",
        b"",
        b"[]",
        b'{"a":1}x',
    ],
)
def test_content_that_is_no_object_is_refused(content: bytes) -> None:
    with pytest.raises(TokenRefused):
        read_object(content, "payload")


def test_claims_of_a_token_are_cut_and_escaped_in_the_log() -> None:
    claims = {**CLAIMS, "exp": 1, "iss": "x\n" * 1_000, "aud": ["y" * 1_000]}
    with pytest.raises(TokenRefused) as refused:
        Claims(claims, "k" * 500).check(ClaimRules(), NOW_MS)
    assert len(refused.value.reason) < 600
    assert "\n" not in refused.value.reason


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_keys_that_are_no_public_keys_for_signatures_are_left_out() -> None:
    short = RSAKey.generate_key(1024)
    secret = OctKey.generate_key(256)
    odd: list[Any] = [short.as_dict(private=False), secret.as_dict(), {"kty": "RSA", "n": "x"}, {"kty": "new"}, 5]
    good = RSAKey.generate_key(2048)
    (found,) = read_key_set(json.dumps({"keys": [*odd, good.as_dict(private=True)]}).encode())
    assert not found.key.is_private
    with pytest.raises(BrokenKeySet, match="no public key for signatures among its 5 keys"):
        read_key_set(json.dumps({"keys": odd}).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"keys":{}}', b"[" * 100_000, b"\xff"])
def test_a_text_that_is_no_key_set_is_refused(content: bytes) -> None:
    with pytest.raises(BrokenKeySet):
        read_key_set(content)
