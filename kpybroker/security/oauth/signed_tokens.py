"""Signed tokens: JSON Web Tokens of an identity provider, checked as Kafka's ``BrokerJwtValidator`` does.

joserfc verifies signatures, with the algorithms named here and with keys that were configured: nothing in a token
chooses a key by itself (``jku``, ``x5u``, ``jwk``, ``x5c``). Pure.
"""

import warnings
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from typing import Any, Final

from joserfc.errors import JoseError, SecurityWarning
from joserfc.jws import JWSRegistry, deserialize_compact
from joserfc.registry import HeaderParameter

from kpybroker.machines.sasl.oauthbearer import TokenRefused, ValidToken
from kpybroker.security.oauth.claims import ClaimRules, Claims, named, read_object, shown
from kpybroker.security.oauth.key_set import PublicKey, select

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LONGEST_HEADER: Final = 16 * 1024
"""In characters. Headers are read before a signature is checked."""
_LARGEST: Final = 1 << 20
_PARTS: Final = 3


class _Registry(JWSRegistry):
    """joserfc's rules for headers and sizes are replaced by those of this module."""

    default_header_registry = {"alg": HeaderParameter("Algorithm", "str", True)}  # noqa: RUF012, FBT003 - joserfc's form
    max_header_length = LONGEST_HEADER
    max_payload_length = max_signature_length = _LARGEST


_REGISTRY: Final = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def validate(
    text: str,
    keys: Sequence[PublicKey],
    rules: ClaimRules,
    now_ms: int,
    no_key: Callable[[str | None], object],
) -> ValidToken:
    """Check a token. Raises TokenRefused. ``no_key`` is called with the ``kid`` of a token that has no key."""
    header, payload = _verified(text, keys, no_key)
    return Claims(read_object(payload, "payload"), header.get("kid")).check(rules, now_ms)


def _verified(
    text: str, keys: Sequence[PublicKey], no_key: Callable[[str | None], object]
) -> tuple[dict[str, Any], bytes]:
    """The header and the payload of a token whose signature is right."""
    parts = text.split(".")
    if len(parts) != _PARTS or not all(parts):
        raise TokenRefused("the token is not a signed JWT of three parts")
    if len(parts[0]) > LONGEST_HEADER:
        raise TokenRefused(f"the header of the token is longer than {LONGEST_HEADER} characters")
    header = read_object(_decoded(parts[0]), "header")
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenRefused(f"the token has alg={shown(algorithm)}; accepted are {', '.join(ALGORITHMS)}")
    if not isinstance(kid, (str, type(None))):
        raise TokenRefused("the kid of the token is not a text")
    if header.get("crit") is not None or header.get("b64", True) is not True:
        raise TokenRefused("the token demands an extension of JWS (crit) that is not known")
    if str(header.get("cty", "")).lower().removeprefix("application/") == "jwt":
        raise TokenRefused("the token contains another token (cty)")
    key = select(header, keys)
    if key is None:
        no_key(kid)
        raise TokenRefused(f"no key of the identity provider fits the token ({named(header, ('alg', 'kid'))})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # that EdDSA has got another name
            return header, deserialize_compact(text, key.key, registry=_REGISTRY).payload
    except (JoseError, ValueError, TypeError):
        wrong = f"the signature of the token is wrong ({named(header, ('alg', 'kid'))})"
        raise TokenRefused(wrong) from None


def _decoded(part: str) -> bytes:
    try:
        return urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (ValueError, Base64Error):
        raise TokenRefused("a part of the token is not base64url") from None
