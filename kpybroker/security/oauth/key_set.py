"""The public keys of an identity provider, from its JSON Web Key Set (RFC 7517), and the choice of one for a token.

The choice is jose4j's, as in Kafka: by ``kid``, kind, use and thumbprints, and the first of several. Only public keys
for signatures are read, and only their numbers; other keys are ignored. Pure.
"""

import hashlib
import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

LEAST_RSA_BITS: Final = 2_048
_NUMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""The members that make a public key of each kind."""
KIND_OF: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The kind of key for algorithms that begin so."""
_CURVES: Final = {"ES256": ("P-256",), "ES384": ("P-384",), "ES512": ("P-521",), "EdDSA": ("Ed25519", "Ed448")}


class BrokenKeySet(ValueError):
    """A text that is no key set, or one without any key that can be used."""


class PublicKey(NamedTuple):
    """One key."""

    kid: str | None
    kind: str
    """``kty``."""
    key: RSAKey | ECKey | OKPKey
    use: str | None = None
    operations: tuple[str, ...] | None = None
    """``key_ops``."""
    algorithm: str | None = None
    curve: str | None = None
    thumbprints: Mapping[str, str] = {}
    """The hashes of its certificate: ``x5t`` and ``x5t#S256``."""


def read_key_set(content: bytes) -> tuple[PublicKey, ...]:
    """The keys for signatures. Raises BrokenKeySet."""
    try:
        found = json.loads(content)
        members = found["keys"]
    except (ValueError, RecursionError):
        raise BrokenKeySet("it is not JSON") from None
    except (KeyError, TypeError):
        raise BrokenKeySet("it has no member 'keys', so it is no JSON Web Key Set") from None
    if not isinstance(members, list):
        raise BrokenKeySet("its member 'keys' is not a list")
    keys = tuple(key for key in map(_read_key, members) if key is not None)
    if not keys:
        raise BrokenKeySet(f"it has no public key for signatures among its {len(members)} keys (RSA, EC, OKP)")
    return keys


def _read_key(member: Any) -> PublicKey | None:
    kind = member.get("kty") if isinstance(member, dict) else None
    if kind not in _NUMBERS:
        return None
    try:
        numbers = {name: member[name] for name in ("kty", *_NUMBERS[kind])}
        key: RSAKey | ECKey | OKPKey
        if kind == "RSA":
            key = RSAKey.import_key(numbers)
            if key.public_key.key_size < LEAST_RSA_BITS:
                return None
        else:
            key = ECKey.import_key(numbers) if kind == "EC" else OKPKey.import_key(numbers)
    except (KeyError, ValueError, TypeError, JoseError):
        return None
    operations = member.get("key_ops")
    return PublicKey(
        _text(member, "kid"),
        kind,
        key,
        _text(member, "use"),
        tuple(operations) if isinstance(operations, list) else None,
        _text(member, "alg"),
        _text(member, "crv"),
        _thumbprints(member),
    )


def _text(member: Mapping[str, Any], name: str) -> str | None:
    value = member.get(name)
    return value if isinstance(value, str) else None


def _thumbprints(member: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, algorithm in (("x5t", "sha1"), ("x5t#S256", "sha256")):
        text = _text(member, name)
        chain = member.get("x5c")
        if text is None and isinstance(chain, list) and chain and isinstance(chain[0], str):
            try:
                digest = hashlib.new(algorithm, b64decode(chain[0])).digest()
            except ValueError:
                continue
            text = urlsafe_b64encode(digest).rstrip(b"=").decode()
        if text is not None:
            found[name] = text
    return found


def select(header: Mapping[str, Any], keys: Sequence[PublicKey]) -> PublicKey | None:
    """The key for a token with this header, whose ``alg`` is known; None if there is none."""
    algorithm: str = header["alg"]
    kid = header.get("kid")
    wanted = [(name, header[name]) for name in ("x5t", "x5t#S256") if header.get(name) is not None]
    found = [
        each
        for each in keys
        if each.kind == KIND_OF[algorithm[:2]]
        and (kid is None or each.kid == kid)
        and each.use in (None, "sig")
        and (each.operations is None or "verify" in each.operations)
        and all(each.thumbprints.get(name, text) == text for name, text in wanted)
    ]
    if len(found) > 1:
        found = [each for each in found if each.algorithm in (None, algorithm)]
    if len(found) > 1 and algorithm in _CURVES:
        found = [each for each in found if each.curve in _CURVES[algorithm]]
    return found[0] if found else None
