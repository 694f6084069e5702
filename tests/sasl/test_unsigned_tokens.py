"""OAUTHBEARER with tokens that have no signature: which are accepted, and what both sides say to one another."""

import base64
import json
from typing import Any

import pytest

from kpybroker.machines.sasl.exchange import (
    AuthenticationFailed,
    CredentialRefused,
    InvalidCredentials,
    RefusalAcknowledged,
)
from kpybroker.machines.sasl.oauthbearer import (
    LONGEST_MS,
    BearerClientFirst,
    OAuthBearerClient,
    OAuthBearerServer,
    TokenRefused,
    ValidToken,
    check_extensions,
    decode_client_first,
)
from kpybroker.machines.sasl.unsecured_tokens import UnsecuredRules, extensions_of, make, rules_of, validate

NOW_MS = 1_700_000_000_000
NOW_S = NOW_MS // 1_000
NO_SKEW = UnsecuredRules()
SKEW = UnsecuredRules(clock_skew_ms=1_000)


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token(**claims: Any) -> str:
    return f"{part({'alg': 'none'})}.{part({'sub': 'u', 'exp': NOW_S + 10} | claims)}."


def refusal(text: str, rules: UnsecuredRules = NO_SKEW) -> str:
    with pytest.raises(TokenRefused) as refused:
        validate(text, rules, NOW_MS)
    return refused.value.reason


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({}, UnsecuredRules()),
        ({"exp": NOW_S + 0.001}, UnsecuredRules()),
        ({"exp": NOW_S - 0.999}, SKEW),
        ({"iat": NOW_S}, UnsecuredRules()),
        ({"iat": NOW_S + 1}, SKEW),
        ({"iat": NOW_S - 100, "exp": NOW_S + 1}, UnsecuredRules()),
        ({"scope": "a"}, UnsecuredRules(required_scope=("a",))),
        ({"scope": ["b", " a "]}, UnsecuredRules(required_scope=("a", "b"))),
        ({"exp": NOW_S + LONGEST_MS // 1_000}, UnsecuredRules()),
    ],
)
def test_a_token_within_its_times_and_scopes_is_accepted(claims: dict[str, Any], rules: UnsecuredRules) -> None:
    found = validate(token(**claims), rules, NOW_MS)
    assert found == ValidToken("u", round(1_000 * claims.get("exp", NOW_S + 10)))


@pytest.mark.parametrize(
    ("claims", "rules", "reason"),
    [
        ({"sub": None}, UnsecuredRules(), "the token has no text in its claim 'sub'"),
        ({"sub": "  "}, UnsecuredRules(), "the token has no text in its claim 'sub'"),
        ({}, UnsecuredRules(principal_claim="name"), "the token has no text in its claim 'name'"),
        ({"exp": None}, UnsecuredRules(), "the token has no exp"),
        ({"exp": True}, UnsecuredRules(), "the token's exp is not a number"),
        ({"exp": "1"}, UnsecuredRules(), "the token's exp is not a number"),
        ({"exp": float("inf")}, UnsecuredRules(), "the token's exp is not a number"),
        ({"iat": float("nan")}, UnsecuredRules(), "the token's iat is not a number"),
        ({"iat": -(10**400)}, UnsecuredRules(), "the token's iat is too large"),
        ({"exp": 10**400}, UnsecuredRules(), "the token's exp is too large"),
        ({"exp": NOW_S}, UnsecuredRules(), "the token expired 0 s ago (sub='u')"),
        ({"exp": NOW_S - 1}, SKEW, "the token expired 1 s ago (sub='u')"),
        ({"exp": NOW_S - 60}, UnsecuredRules(), "the token expired 60 s ago (sub='u')"),
        ({"iat": NOW_S + 0.001}, UnsecuredRules(), "the token was issued in the future (iat)"),
        ({"iat": NOW_S + 1.5}, SKEW, "the token was issued in the future (iat)"),
        ({"iat": NOW_S, "exp": NOW_S}, SKEW, "the token expires (exp) before it was issued (iat)"),
        ({"scope": "b"}, UnsecuredRules(required_scope=("a",)), "the token of 'u' lacks the scope 'a'"),
        ({"scope": 7}, UnsecuredRules(), "the token's scope is neither a text nor a list"),
        ({"exp": NOW_S + LONGEST_MS // 1_000 + 1}, UnsecuredRules(), "the token's exp is out of range"),
    ],
)
def test_a_token_that_breaks_a_rule_is_refused(claims: dict[str, Any], rules: UnsecuredRules, reason: str) -> None:
    assert refusal(token(**claims), rules) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.b", "the token has not three parts"),
        ("a..", "the token has not three parts"),
        (token() + "x", "the token has alg=none and a signature"),
        (f"{part({'alg': 'RS256'})}.{part({})}.x", "the token is signed"),
        (f"{part([])}.{part({})}.", "a part of the token is not a JSON object"),
        (f"!.{part({})}.", "a part of the token is not JSON in base64url"),
    ],
)
def test_a_text_that_is_no_such_token_is_refused(text: str, reason: str) -> None:
    assert refusal(text).startswith(reason)


def test_a_client_makes_the_token_that_its_options_describe() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "u",
        "unsecuredLoginStringClaim_": "has no name",
        "unsecuredLoginNumberClaim_n": "1.5",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginListClaim_one": "|a",
        "unsecuredLoginListClaim_none": "|",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "7",
        "other": "x",
    }
    made = make(options, NOW_MS)
    content = made.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    expected = {"sub": "u", "n": 1.5, "scope": ["a", "b"], "one": ["a"], "none": [], "iat": NOW_S, "exp": NOW_S + 60}
    assert claims == expected
    assert validate(made, UnsecuredRules(required_scope=("b",)), NOW_MS) == ValidToken("u", NOW_MS + 60_000)
    assert extensions_of(options) == {"traceId": "7"}
    assert validate(make({"unsecuredLoginStringClaim_sub": "u"}, NOW_MS), UnsecuredRules(), NOW_MS).expires_ms == (
        NOW_MS + 3_600_000
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unsecuredLoginStringClaim_sub": " "},
        {"unsecuredLoginStringClaim_sub": "u", "unsecuredLoginLifetimeSeconds": "-1"},
        {"unsecuredLoginStringClaim_sub": "u", "unsecuredLoginNumberClaim_n": "x"},
        {"unsecuredLoginStringClaim_sub": "u", "unsecuredLoginNumberClaim_n": "nan"},
        {"unsecuredLoginStringClaim_sub": "u", "unsecuredLoginNumberClaim_n": "-Infinity"},
        {"unsecuredLoginStringClaim_sub": "u", "unsecuredLoginNumberClaim_exp": "1"},
        {"unsecuredLoginStringClaim_sub": "u", "unsecuredLoginPrincipalClaimName": "name"},
    ],
)
def test_options_that_make_no_token_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="unsecuredLogin"):
        make(options, NOW_MS)


def test_the_options_of_a_jaas_entry_become_token_rules() -> None:
    assert rules_of({}) == UnsecuredRules()
    options = {
        "PrincipalClaimName": "name",
        "ScopeClaimName": "s",
        "RequiredScope": "a  b",
        "AllowableClockSkewMs": "7",
    }
    found = rules_of({f"unsecuredValidator{name}": value for name, value in options.items()})
    assert found == UnsecuredRules("name", "s", ("a", "b"), 7)
    assert rules_of({"unsecuredValidatorAllowableClockSkewMs": "0"}).clock_skew_ms == 0
    for name, value in (("AllowableClockSkewMs", "-1"), ("AllowableClockSkewMs", "x"), ("RequiredScope", 'a"')):
        with pytest.raises(ValueError, match=name):
            rules_of({f"unsecuredValidator{name}": value})


def server() -> OAuthBearerServer:
    return OAuthBearerServer(lambda text: validate(text, UnsecuredRules(required_scope=("a",)), NOW_MS))


def test_both_sides_agree_on_a_token() -> None:
    client, here = OAuthBearerClient(token(scope="a"), {"traceId": "7"}), server()
    assert (client.is_complete, here.is_complete) == (False, False)
    assert client.respond(here.respond(client.first())) is None
    assert (client.is_complete, here.is_complete, here.token_authenticated) == (True, True, False)
    assert (here.authorization_id, here.expires_ms) == ("u", NOW_MS + 10_000)


def test_a_refusal_is_acknowledged_and_only_then_the_login_fails() -> None:
    client, here = OAuthBearerClient(token()), server()
    with pytest.raises(CredentialRefused) as refused:
        here.respond(client.first())
    assert refused.value.challenge == b'{"status":"insufficient_scope", "scope":"[a]"}'
    acknowledgement = client.respond(refused.value.challenge)
    assert acknowledgement == b"\x01"
    with pytest.raises(RefusalAcknowledged):
        here.respond(acknowledgement)
    with pytest.raises(AuthenticationFailed):
        client.respond(b"")
    assert (client.is_complete, here.is_complete) == (False, False)
    with pytest.raises(InvalidCredentials):
        server().respond(b"\x01")


def test_a_client_may_ask_for_its_own_name_alone() -> None:
    assert server().respond(BearerClientFirst(token(scope="a"), "u").encode()) == b""
    with pytest.raises(AuthenticationFailed, match=r"authorization id \(v\) that is different"):
        server().respond(BearerClientFirst(token(scope="a"), "v").encode())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "its first message is none of OAUTHBEARER"),
        (b"y,,\x01auth=Bearer x\x01\x01", "its first message is none of OAUTHBEARER"),
        (b"n,,\x01\x01", "its first message has no token"),
        (b"n,,\x01auth=Basic x\x01\x01", "the token of its first message has not the form of a bearer token"),
    ],
)
def test_a_first_message_without_a_token_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_client_first(message)


def test_a_first_message_is_read_as_it_was_written() -> None:
    for first in (
        BearerClientFirst("t.0.x"),
        BearerClientFirst("t", "u"),
        BearerClientFirst("t", "u", (("a", "b c"), ("d", "e=f"))),
    ):
        assert decode_client_first(first.encode()) == first


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"": "x"}, {"a1": "x"}, {"a": ""}, {"a": "\x01"}])
def test_extensions_that_cannot_be_sent_are_refused(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        check_extensions(extensions)
    with pytest.raises(ValueError, match="cannot be sent"):
        OAuthBearerClient("t", extensions)
