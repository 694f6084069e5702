"""The claims of a signed token, and the rules for them: those of Kafka's ``BrokerJwtValidator`` and of jose4j. Pure.

Invariant: no part of a token but its ``iss``, ``aud``, ``sub`` and ``kid``, cut short and escaped, is in the text of an
error.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.sasl.oauthbearer import LONGEST_MS, TokenRefused, ValidToken

LARGEST_S: Final = 2**63 - 1
_SHOWN_CHARS: Final = 80
_JAVA_SPACE: Final = "".join(map(chr, range(33)))


class ClaimRules(NamedTuple):
    """The ``sasl.oauthbearer.*`` configs about claims."""

    audiences: tuple[str, ...] = ()
    """``expected.audience``. Without any, a token that names an audience is refused, as in Kafka before 4.4."""
    issuer: str | None = None
    clock_skew_s: int = 30
    scope_claim: str = "scope"
    principal_claim: str = "sub"
    """``sub.claim.name``."""
    any_audience: bool = False
    """``allow.unverified.audience``, if no audience is expected."""


class Claims:
    """The claims of a token whose signature is right."""

    def __init__(self, claims: Mapping[str, Any], kid: str | None = None) -> None:
        self._claims = claims
        self._kid = kid

    def check(self, rules: ClaimRules, now_ms: int) -> ValidToken:
        """Raises TokenRefused."""
        expires_s = self._check_times(rules, now_ms // 1000)
        for name in ("iss", "sub", "jti"):
            if not isinstance(self._claims.get(name), (str, type(None))):
                raise self._refused(f"its {name} is not a text")
        self._check_audience(rules.audiences, any_audience=rules.any_audience)
        if rules.issuer is not None and self._claims.get("iss") != rules.issuer:
            raise self._refused("its issuer (iss) is not the one in sasl.oauthbearer.expected.issuer")
        self._check_scope(rules.scope_claim)
        principal = self._claims.get(rules.principal_claim)
        if not isinstance(principal, str) or not principal.strip(_JAVA_SPACE):
            raise self._refused(f"it has no text in its claim {rules.principal_claim}")
        if not 0 <= expires_s * 1000 - now_ms + rules.clock_skew_s * 1000 <= LONGEST_MS:
            raise self._refused("its exp is out of range")
        return ValidToken(principal.strip(_JAVA_SPACE), expires_s * 1000)

    def _check_times(self, rules: ClaimRules, now_s: int) -> int:
        expires_s, issued_s, begins_s = (self._seconds(name) for name in ("exp", "iat", "nbf"))
        if expires_s is None or issued_s is None:
            raise self._refused(f"it has no {'exp' if expires_s is None else 'iat'}")
        if now_s - rules.clock_skew_s >= expires_s:
            raise self._refused(f"it expired {now_s - expires_s} s ago")
        if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
            raise self._refused("it expires (exp) before it begins (iat, nbf)")
        if begins_s is not None and now_s + rules.clock_skew_s < begins_s:
            raise self._refused(f"it is valid in {begins_s - now_s} s only (nbf)")
        if issued_s < 0:
            raise self._refused("its iat is negative")
        return expires_s

    def _seconds(self, name: str) -> int | None:
        value = self._claims.get(name)
        if value is None:
            return None
        if isinstance(value, float) and abs(value) < LARGEST_S:
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_S:
            raise self._refused(f"its {name} is not a number of seconds")
        return value

    def _check_audience(self, expected: Sequence[str], *, any_audience: bool) -> None:
        found = self._claims.get("aud")
        if any_audience and not expected:
            return
        if found is None:
            if expected:
                raise self._refused("it has no audience (aud), and sasl.oauthbearer.expected.audience is set")
            return
        audiences = [found] if isinstance(found, str) else found
        if not isinstance(audiences, list) or not all(isinstance(each, (str, type(None))) for each in audiences):
            raise self._refused("its aud is neither a text nor a list of texts")
        if not set(expected) & set(audiences):
            why = "is not among sasl.oauthbearer.expected.audience" if expected else "needs the config"
            raise self._refused(f"its audience (aud) {why}{'' if expected else ' sasl.oauthbearer.expected.audience'}")

    def _check_scope(self, name: str) -> None:
        found = self._claims.get(name)
        scopes = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        if not all(isinstance(each, str) and each.strip(_JAVA_SPACE) for each in scopes):
            raise self._refused(f"its {name} is neither a text nor a list of texts")
        if len({each.strip(_JAVA_SPACE) for each in scopes}) < len(scopes):
            raise self._refused(f"its {name} names a scope twice")

    def _refused(self, why: str) -> TokenRefused:
        known = {**self._claims, "kid": self._kid}
        return TokenRefused(f"the token is not accepted: {why} ({named(known, ('iss', 'aud', 'sub', 'kid'))})")


def read_object(content: bytes, part: str) -> dict[str, Any]:
    """A JSON object whose names are unique. Raises TokenRefused. ``part`` names it in the error."""
    try:
        found = json.loads(content, object_pairs_hook=_without_duplicates, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise TokenRefused(f"the {part} of the token is not JSON with unique names") from None
    if not isinstance(found, dict):
        raise TokenRefused(f"the {part} of the token is not a JSON object")
    return found


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _no_number(_text: str) -> float:
    raise ValueError


def named(values: Mapping[str, Any], names: Sequence[str]) -> str:
    """The values of these names, if there are any, for an error."""
    return ", ".join(f"{name}={shown(values[name])}" for name in names if values.get(name) is not None)


def shown(value: Any) -> str:
    """A value of a token for an error: it may be anything."""
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
