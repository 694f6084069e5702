"""Tokens without a signature (``alg=none``), which anybody can make: for tests and development.

Both sides are Kafka's (``OAuthBearerUnsecuredValidatorCallbackHandler``, ``OAuthBearerUnsecuredLoginCallbackHandler``),
with the options of the JAAS config that configure them. Pure.
"""

import json
import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.sasl.oauthbearer import INSUFFICIENT_SCOPE, LONGEST_MS, TokenRefused, ValidToken

_OF_SERVER: Final = "unsecuredValidator"
_OF_CLIENT: Final = "unsecuredLogin"
_STRING, _NUMBER, _LIST = (f"{_OF_CLIENT}{kind}Claim_" for kind in ("String", "Number", "List"))
_EXTENSION: Final = f"{_OF_CLIENT}Extension_"
_SCOPE_ITEM: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_DEFAULT_LIFETIME_S: Final = 3_600
_PARTS: Final = 3


class UnsecuredRules(NamedTuple):
    """The options of the server's JAAS config."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    clock_skew_ms: int = 0


def rules_of(options: Mapping[str, str]) -> UnsecuredRules:
    """The rules in the options of a JAAS config. Raises ValueError."""

    def option(name: str, otherwise: str) -> str:
        return options.get(_OF_SERVER + name, "").strip() or otherwise

    scope = tuple(item for item in option("RequiredScope", "").split(" ") if item)
    for item in scope:
        if _SCOPE_ITEM.fullmatch(item) is None:
            raise ValueError(f"{_OF_SERVER}RequiredScope: {item!r} is not a scope")
    name = f"{_OF_SERVER}AllowableClockSkewMs"
    try:
        skew_ms = int(option("AllowableClockSkewMs", "0"))
    except ValueError:
        raise ValueError(f"{name} is a number of milliseconds") from None
    if skew_ms < 0:
        raise ValueError(f"{name} must not be negative")
    return UnsecuredRules(option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope"), scope, skew_ms)


def validate(text: str, rules: UnsecuredRules, now_ms: int) -> ValidToken:
    """Check a token. Raises TokenRefused."""
    claims = _claims(text)
    principal = claims.get(rules.principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        raise TokenRefused(f"the token has no text in its claim {rules.principal_claim!r}")
    expires_s, issued_s = _seconds(claims, "exp"), _seconds(claims, "iat")
    if expires_s is None:
        raise TokenRefused("the token has no exp")
    if issued_s is not None and 1000 * issued_s > now_ms + rules.clock_skew_ms:
        raise TokenRefused("the token was issued in the future (iat)")
    if now_ms - rules.clock_skew_ms >= 1000 * expires_s:
        raise TokenRefused(f"the token expired {(now_ms - 1000 * expires_s) / 1000:.0f} s ago (sub={principal[:64]!r})")
    if issued_s is not None and expires_s <= issued_s:
        raise TokenRefused("the token expires (exp) before it was issued (iat)")
    scope = _scope(claims, rules.scope_claim)
    missing = [item for item in rules.required_scope if item not in scope]
    if missing:
        raise TokenRefused(
            f"the token of {principal[:64]!r} lacks the scope {missing[0]!r}",
            INSUFFICIENT_SCOPE,
            f"[{', '.join(rules.required_scope)}]",
        )
    if 1000 * expires_s - now_ms > LONGEST_MS:
        raise TokenRefused("the token's exp is out of range")
    return ValidToken(principal, math.floor(expires_s * 1000 + 0.5))


def _claims(text: str) -> dict[str, Any]:
    parts = text.split(".")
    if len(parts) != _PARTS or not parts[1]:
        raise TokenRefused("the token has not three parts")
    header, claims = _object(parts[0]), _object(parts[1])
    if header.get("alg") != "none":
        raise TokenRefused("the token is signed, but this listener accepts tokens without a signature only (alg=none)")
    if parts[2]:
        raise TokenRefused("the token has alg=none and a signature")
    return claims


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, Base64Error, RecursionError):
        raise TokenRefused("a part of the token is not JSON in base64url") from None
    if not isinstance(found, dict):
        raise TokenRefused("a part of the token is not a JSON object")
    return found


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TokenRefused(f"the token's {name} is not a number")
    try:
        seconds = float(value)
    except OverflowError:
        raise TokenRefused(f"the token's {name} is too large") from None
    if not math.isfinite(seconds):
        raise TokenRefused(f"the token's {name} is not a number")
    return seconds


def _scope(claims: Mapping[str, Any], name: str) -> list[str]:
    found = claims.get(name, [])
    if isinstance(found, str):
        found = [found]
    if not isinstance(found, list):
        raise TokenRefused(f"the token's {name} is neither a text nor a list")
    return [str(each).strip() for each in found]


def make(options: Mapping[str, str], now_ms: int) -> str:
    """The token that a client's JAAS options describe. Raises ValueError with one line."""
    lifetime = options.get(f"{_OF_CLIENT}LifetimeSeconds", str(_DEFAULT_LIFETIME_S))
    if not lifetime.isdecimal():
        raise ValueError(f"{_OF_CLIENT}LifetimeSeconds is a number of seconds")
    claims: dict[str, Any] = {"exp": now_ms / 1000 + int(lifetime), "iat": now_ms / 1000}
    for prefix, read in _READERS:
        for name, value in options.items():
            claim = name.removeprefix(prefix)
            if not name.startswith(prefix) or not claim:
                continue
            if claim in ("exp", "iat"):
                raise ValueError(f"{name}: the claim {claim} is set by {_OF_CLIENT}LifetimeSeconds")
            try:
                claims[claim] = read(value)
            except ValueError:
                raise ValueError(f"{name} is not a number") from None
    principal = options.get(f"{_OF_CLIENT}PrincipalClaimName", "").strip() or "sub"
    if not str(claims.get(principal, "")).strip():
        raise ValueError(f"{_STRING}{principal} is missing: it names the principal of tokens without a signature")
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _list(text: str) -> list[str]:
    """The elements of a list; its first character separates them."""
    return text[1:].split(text[0]) if len(text) > 1 else []


def _number(text: str) -> float:
    """A number that JSON can hold. Raises ValueError for another."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_READERS: Final[tuple[tuple[str, Callable[[str], Any]], ...]] = ((_STRING, str), (_NUMBER, _number), (_LIST, _list))


def extensions_of(options: Mapping[str, str]) -> dict[str, str]:
    """The SASL extensions that a client's JAAS options ask for."""
    return {name.removeprefix(_EXTENSION): value for name, value in options.items() if name.startswith(_EXTENSION)}


def _part(value: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
