"""The users that ``format --add-scram`` names, as records of the new cluster (Kafka's ``ScramParser``). Pure.

Nodes that log in to each other by SCRAM need their users before the first request.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from random import Random

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.chosen_levels import FormatRefused
from kpybroker.machines.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, ScramMechanism
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

SALT_BYTES = 20
_INT = re.compile(r"[+-]?[0-9]{1,10}")
_INT_MAX = 2**31 - 1


def parse_scram(texts: Sequence[str], level: int, rng: Random) -> list[UserScramCredentialRecord]:
    """The records of ``MECHANISM=[name=...,password=...]`` options at a level of ``metadata.version``. Raises
    FormatRefused."""
    if texts and level < metadata_version.SCRAM:
        name = metadata_version.name_of(metadata_version.SCRAM)
        raise FormatRefused(f"SCRAM is only supported in metadata.version {name} or later.")
    return [_record(*_of_mechanism(text), rng) for text in texts]


def _of_mechanism(text: str) -> tuple[ScramMechanism, str]:
    name, equals, rest = text.strip().partition("=")
    if not equals:
        raise FormatRefused(f"Failed to find equals sign in SCRAM argument '{text.strip()}'")
    if name not in MECHANISMS:
        raise FormatRefused(f"The add-scram mechanism {name} is not supported.")
    if not rest.startswith("["):
        raise FormatRefused("Expected configuration string to start with [")
    if not rest.endswith("]"):
        raise FormatRefused("Expected configuration string to end with ]")
    return MECHANISMS[name], rest[1:-1]


def _settings(text: str) -> dict[str, str]:
    components = text.rstrip(",").split(",") if text else [""]
    found = {}
    for component in components:
        key, equals, value = component.partition("=")
        if not equals:
            raise FormatRefused(f"No equals sign found in SCRAM component: {component}")
        quoted = len(value) > 1 and value.startswith('"') and value.endswith('"')
        found[key] = value[1:-1] if quoted else value
    return found


def _record(mechanism: ScramMechanism, text: str, rng: Random) -> UserScramCredentialRecord:
    settings = _settings(text)
    name = settings.pop("name", None)
    if name is None:
        raise FormatRefused("You must supply 'name' to add-scram")
    given_salt = settings.pop("salt", None)
    salt = None if given_salt is None else _decoded(given_salt, f"salt: {given_salt}")
    iterations = _iterations(settings.pop("iterations", None))
    password, given_salted = settings.pop("password", None), settings.pop("saltedpassword", None)
    salted = None
    if password is None:
        if given_salted is None:
            raise FormatRefused("You must supply one of 'password' or 'saltedpassword' to add-scram")
        if salt is None:
            raise FormatRefused("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted = _decoded(given_salted, "saltedPassword")  # a secret: it is not repeated
    elif not password:
        raise FormatRefused("The password of add-scram must not be empty")
    if settings:
        raise FormatRefused(f"Unknown SCRAM configurations: {', '.join(sorted(settings))}")
    for is_wrong, sign, limit in (
        (iterations < MIN_ITERATIONS, ">=", MIN_ITERATIONS),
        (iterations > MAX_ITERATIONS, "<=", MAX_ITERATIONS),
    ):
        if is_wrong:
            kind = mechanism.name.replace("-", "_")
            raise FormatRefused(f"The 'iterations' value must be {sign} {limit} for add-scram using {kind}")
    if salt is None:
        salt = rng.randbytes(SALT_BYTES)
    if salted is None:
        salted = mechanism.salted_password(password or "", salt, iterations)
    credential = mechanism.credential(salted, salt, iterations)
    return UserScramCredentialRecord(name=name, mechanism=mechanism.code, **credential._asdict())


def _decoded(text: str, what: str) -> bytes:
    """The bytes of base64; the padding may be left out, as in Java."""
    try:
        return b64decode(text if "=" in text else text + "=" * (-len(text) % 4), validate=True)
    except (Base64Error, ValueError):
        raise FormatRefused(f"Failed to decode given {what}") from None


def _iterations(text: str | None) -> int:
    if text is None:
        return MIN_ITERATIONS
    number = int(text) if _INT.fullmatch(text) else _INT_MAX + 1
    if not -_INT_MAX <= number <= _INT_MAX:
        raise FormatRefused(f"Failed to parse iterations count: {text}")
    return number
