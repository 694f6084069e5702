"""The assertion that a client signs to get a token: the configs ``sasl.oauthbearer.assertion.*``, and what it says.

Pure: `kpybroker.security.oauth.signed_assertions` reads the files that are named here, and signs.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

PREFIX: Final = "sasl.oauthbearer.assertion."
FILE: Final = f"{PREFIX}file"
ALGORITHM: Final = f"{PREFIX}algorithm"
KEY_FILE: Final = f"{PREFIX}private.key.file"
PASSPHRASE: Final = f"{PREFIX}private.key.passphrase"
TEMPLATE: Final = f"{PREFIX}template.file"
ISSUER: Final = f"{PREFIX}claim.iss"
ALGORITHMS: Final = ("RS256", "ES256")
"""The first one is the default."""
_CLAIMS: Final = ("aud", "iss", "sub")
_LONGEST_S: Final = {"exp": 86_400, "nbf": 3_600}


class Assertion(NamedTuple):
    """How assertions are made: each is read from a file that others renew, or signed here."""

    file: str = ""
    algorithm: str = ALGORITHMS[0]
    key_file: str = ""
    passphrase: str = ""
    template_file: str = ""
    """A JSON file with further headers and claims."""
    claims: tuple[tuple[str, str], ...] = ()
    lifetime_s: int = 300
    """``claim.exp.seconds``."""
    begins_before_s: int = 60
    """``claim.nbf.seconds``."""
    has_id: bool = False
    """``claim.jti.include``: whether each has an id of its own."""

    def __repr__(self) -> str:
        return f"Assertion({self.file or self.key_file!r}, {self.algorithm}, {dict(self.claims)!r})"

    @property
    def identity(self) -> str:
        """The client whose assertion it is, for messages."""
        claims = dict(self.claims)
        return claims.get("sub") or claims.get("iss") or self.file or self.key_file

    def header(self, template: Mapping[str, Any]) -> dict[str, Any]:
        """The header, by the headers of the template."""
        return {**template, "alg": self.algorithm, "typ": "JWT"}

    def payload(self, template: Mapping[str, Any], now_s: int, new_id: Callable[[], str]) -> dict[str, Any]:
        """The claims, by those of the template. As in Kafka the template counts before the configs of claims, and the
        times before the template."""
        times = {"iat": now_s, "exp": now_s + self.lifetime_s, "nbf": now_s - self.begins_before_s}
        return {**dict(self.claims), **template, **times, **({"jti": new_id()} if self.has_id else {})}


def read_assertion(value_of: Callable[[str], Any]) -> Assertion:
    """The assertion that is configured. Raises ValueError with one line."""
    found = {name: _text(value_of(f"{PREFIX}{name}")) for name in ("file", "private.key.file", "template.file")}
    if found["file"]:
        return Assertion(found["file"])
    if not found["private.key.file"]:
        raise ValueError(f"{KEY_FILE} is missing: assertions are signed with that key, or read from {FILE}")
    algorithm = _text(value_of(ALGORITHM)).upper() or ALGORITHMS[0]
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{ALGORITHM}: {algorithm} is not available; known are {' and '.join(ALGORITHMS)}")
    claims = ((name, _text(value_of(f"{PREFIX}claim.{name}"))) for name in _CLAIMS)
    return Assertion(
        algorithm=algorithm,
        key_file=found["private.key.file"],
        passphrase=_text(value_of(PASSPHRASE)),
        template_file=found["template.file"],
        claims=tuple((name, value) for name, value in claims if value),
        lifetime_s=_seconds(value_of, "exp", 300),
        begins_before_s=_seconds(value_of, "nbf", 60),
        has_id=_text(value_of(f"{PREFIX}claim.jti.include")).lower() == "true",
    )


def _seconds(value_of: Callable[[str], Any], claim: str, otherwise: int) -> int:
    name = f"{PREFIX}claim.{claim}.seconds"
    text = _text(value_of(name)) or str(otherwise)
    if not (text.isascii() and text.isdigit() and int(text) <= _LONGEST_S[claim]):
        raise ValueError(f"{name}={text}: this is not a number of seconds from 0 to {_LONGEST_S[claim]}")
    return int(text)


def _text(value: Any) -> str:
    value = getattr(value, "value", value)
    return "" if value is None else str(value).strip()
