"""A login by SCRAM-SHA-256, written by hand as `frames` are: SaslHandshake v1 and two SaslAuthenticate v1.

The salted password is computed once: it takes the client a millisecond, and costs the broker nothing.
"""

import hashlib
import hmac
import secrets
import struct
from base64 import b64decode, b64encode
from functools import cache
from typing import Final

from benchmarks.raw import frames
from benchmarks.raw.asking import Conversation

MECHANISM: Final = b"SCRAM-SHA-256"
_HANDSHAKE: Final = frames.frame(17, 1, struct.pack(">h", len(MECHANISM)) + MECHANISM, header_end=b"")


class LoginError(RuntimeError):
    """The broker refused the login, or does not know the password."""


def log_in(conversation: Conversation, user: str, password: str) -> None:
    """Log a connection in. Raises LoginError."""
    (code,) = struct.unpack_from(">h", conversation.ask(_HANDSHAKE), 4)
    if code:
        raise LoginError(f"SaslHandshake: error code {code}")
    first = f"n={user},r={secrets.token_hex(12)}"
    challenge = _authenticate(conversation, f"n,,{first}".encode()).decode()
    fields = dict(part.split("=", 1) for part in challenge.split(","))
    salted = _salted(password, fields["s"], int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c=biws,r={fields['r']}"
    signed = f"{first},{challenge},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    last = _authenticate(conversation, f"{without_proof},p={b64encode(proof).decode()}".encode())
    if last != b"v=" + b64encode(hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")):
        raise LoginError("the broker does not prove that it knows the password")


@cache
def _salted(password: str, salt: str, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), b64decode(salt), iterations)


def _authenticate(conversation: Conversation, message: bytes) -> bytes:
    answer = conversation.ask(frames.frame(36, 1, struct.pack(">i", len(message)) + message, header_end=b""))
    code, length = struct.unpack_from(">hh", answer, 4)
    start = 8 + max(length, 0)
    if code:
        raise LoginError(f"SaslAuthenticate: error code {code}, {answer[8:start].decode()}")
    (size,) = struct.unpack_from(">i", answer, start)
    return answer[start + 4 : start + 4 + size]
