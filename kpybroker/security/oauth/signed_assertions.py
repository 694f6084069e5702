"""Assertions, signed by joserfc with a key in a file, or read from a file. Blocks: for threads and commands.

Files are read again each time, so a key that is replaced counts for the next token. No part of a key, a passphrase or
an assertion is in an error.
"""

import json
import time
import uuid
import warnings
from typing import Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import InvalidKeyTypeError, JoseError, SecurityWarning
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry, serialize_compact

from kpybroker.security.oauth.assertions import ALGORITHM, ALGORITHMS, FILE, KEY_FILE, PASSPHRASE, TEMPLATE, Assertion
from kpybroker.security.oauth.fetching import FetchFailed, read_file

_REGISTRY: Final = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
_PARTS: Final = 3
_P256_BITS: Final = 256


def new_assertion(how: Assertion) -> str:
    """An assertion that begins now. Raises FetchFailed."""
    if how.file:
        text = _content(FILE, how.file).decode("ascii", "replace").strip()
        if len(text.split(".")) != _PARTS:
            raise FetchFailed(f"{FILE}: {how.file} holds no JWT of three parts", is_final=True)
        return text
    header, claims = _template(how.template_file)
    payload = how.payload(claims, int(time.time()), lambda: str(uuid.uuid4()))
    key = _key(how)
    try:
        return serialize_compact(how.header(header), json.dumps(payload), key, registry=_REGISTRY)
    except (JoseError, ValueError, TypeError):
        raise FetchFailed(
            f"{TEMPLATE}: {how.template_file} has a header that cannot be signed", is_final=True
        ) from None


def _content(name: str, path: str) -> bytes:
    try:
        return read_file(path)
    except FetchFailed as error:
        raise FetchFailed(f"{name}: {error}", is_final=True) from None


def _template(path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The headers and claims in the template, none without one."""
    if not path:
        return {}, {}
    try:
        found = json.loads(_content(TEMPLATE, path))
        header, payload = (found.get(name, {}) for name in ("header", "payload"))
    except (ValueError, AttributeError, RecursionError):
        header = payload = None
    if not isinstance(header, dict) or not isinstance(payload, dict):
        raise FetchFailed(
            f'{TEMPLATE}: {path} is not JSON of the form {{"header": {{}}, "payload": {{}}}}', is_final=True
        )
    return header, payload


def _key(how: Assertion) -> RSAKey | ECKey:
    content = _content(KEY_FILE, how.key_file)
    if b"PRIVATE KEY-----" not in content:
        raise FetchFailed(f"{KEY_FILE}: {how.key_file} holds no private key in PEM", is_final=True)
    kind: type[RSAKey | ECKey] = RSAKey if how.algorithm.startswith("RS") else ECKey
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # that a key of RSA is short, which the provider judges
            key = kind.import_key(content, None, how.passphrase or None)
    except InvalidKeyTypeError:
        raise _unfit(how) from None
    except (ValueError, TypeError, JoseError, UnsupportedAlgorithm):
        raise FetchFailed(f"{KEY_FILE}: {how.key_file} cannot be read; compare {PASSPHRASE}", is_final=True) from None
    if isinstance(key, ECKey) and key.raw_value.key_size != _P256_BITS:
        raise _unfit(how)
    return key


def _unfit(how: Assertion) -> FetchFailed:
    wanted = "of RSA" if how.algorithm.startswith("RS") else "on the curve P-256"
    return FetchFailed(
        f"{KEY_FILE}: {how.key_file} is no key {wanted}, as {ALGORITHM}={how.algorithm} demands", is_final=True
    )
