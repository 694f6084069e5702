"""SASL SCRAM (RFC 5802, RFC 7677) as Kafka speaks it: keys and messages of SCRAM-SHA-256 and SCRAM-SHA-512.

There is no channel binding, and passwords are used as they are (no SASLprep). The halves of an exchange are in
`kpybroker.machines.sasl.scram_server` and `kpybroker.machines.sasl.scram_client`.
"""

import hashlib
import hmac
import re
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64
from typing import Any, Final, NamedTuple

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
TOKEN_AUTH: Final = "tokenauth"
"""The extension of a client's first message that says: user and password are a delegation token (KIP-48)."""
MOST_MESSAGE_BYTES: Final = 8_192
"""The size of the largest message. A server keeps the first one of each client that begins a login."""
_BASE64: Final = "[A-Za-z0-9+/]+={0,2}"
_NONCE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=((?:[^=,\0]|=2C|=3D)*))?,n=((?:[^=,\0]|=2C|=3D)+),r=({_NONCE})((?:,[A-Za-z]+=[^,\0]+)*)"
)
"""The authorization id, the user, the nonce and the extensions."""
_SERVER_FIRST: Final = re.compile(rf"r=({_NONCE}),s=({_BASE64}),i=([0-9]{{1,9}})(?:,[A-Za-z]+=[^,\0]+)*")
"""The nonce, the salt and the iterations."""
_CLIENT_FINAL: Final = re.compile(rf"(c=({_BASE64}),r=({_NONCE})(?:,[A-Za-z]+=[^,\0]+)*),p=({_BASE64})")
"""All before the proof, of that the binding and the nonce, and the proof."""
_SERVER_FINAL: Final = re.compile(rf"(?:e=([^,\0]+)|v=({_BASE64}))(?:,[A-Za-z]+=[^,\0]+)*")
"""The error and the signature, one of them."""


def why_unacceptable(iterations: int, salted_password: bytes) -> str:
    """The reason for which a new credential is refused; empty if it is accepted."""
    if iterations < MIN_ITERATIONS:
        return "Too few iterations"
    if iterations > MAX_ITERATIONS:
        return "Too many iterations"
    return "" if salted_password else "Salted password must not be empty"


class MalformedScram(Exception):
    """A message that is none of SCRAM."""


class ScramMechanism(NamedTuple):
    """One of the two mechanisms."""

    name: str
    code: int
    """Kafka's number in requests and records (``ScramMechanism.type``)."""
    digest: str

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.digest, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.digest)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """PBKDF2. Takes milliseconds: not for the event loop."""
        return hashlib.pbkdf2_hmac(self.digest, password.encode(), salt, iterations)

    def credential(self, salted_password: bytes, salt: bytes, iterations: int) -> "ScramCredential":
        """The part of a password that a server stores."""
        client_key = self.hmac(salted_password, b"Client Key")
        return ScramCredential(salt, self.hash(client_key), self.hmac(salted_password, b"Server Key"), iterations)


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
BY_CODE: Final = {each.code: each for each in MECHANISMS.values()}


class ScramCredential(NamedTuple):
    """The part that a server knows of a user's password (``ScramCredential``)."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class ClientFirst(NamedTuple):
    """``n,,n=user,r=nonce``."""

    user: str
    nonce: str
    authorization_id: str = ""
    extensions: tuple[tuple[str, str], ...] = ()

    @property
    def bare(self) -> str:
        """The message without its GS2 header."""
        further = "".join([f",{name}={value}" for name, value in self.extensions]) if self.extensions else ""
        return f"n={escaped(self.user)},r={self.nonce}{further}"

    @property
    def header(self) -> str:
        """The GS2 header."""
        return f"n,{f'a={escaped(self.authorization_id)}' if self.authorization_id else ''},"

    def encode(self) -> bytes:
        return (self.header + self.bare).encode()


class ServerFirst(NamedTuple):
    """``r=nonce,s=salt,i=iterations``."""

    nonce: str
    salt: bytes
    iterations: int

    def encode(self) -> bytes:
        return f"r={self.nonce},s={b64encode(self.salt).decode()},i={self.iterations}".encode()


class ClientFinal(NamedTuple):
    """``c=binding,r=nonce,p=proof``."""

    binding: bytes
    nonce: str
    proof: bytes
    without_proof: str

    def __repr__(self) -> str:
        return f"ClientFinal({self.without_proof!r})"

    @classmethod
    def made(cls, header: str, nonce: str, proof: bytes = b"") -> "ClientFinal":
        """The message over a GS2 header."""
        binding = header.encode()
        return cls(binding, nonce, proof, f"c={b64encode(binding).decode()},r={nonce}")

    def encode(self) -> bytes:
        return f"{self.without_proof},p={b64encode(self.proof).decode()}".encode()


class ServerFinal(NamedTuple):
    """``v=signature``, or ``e=error``."""

    signature: bytes = b""
    error: str = ""

    def __repr__(self) -> str:
        return f"ServerFinal(error={self.error!r})"

    def encode(self) -> bytes:
        return (f"e={self.error}" if self.error else f"v={b64encode(self.signature).decode()}").encode()


def escaped(name: str) -> str:
    """A name as a saslname: ``=`` and ``,`` are written as ``=3D`` and ``=2C``."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """The name of a saslname."""
    return name.replace("=2C", ",").replace("=3D", "=")


def decode_client_first(data: bytes) -> ClientFirst:
    """Raises Malformed."""
    authorization_id, user, nonce, extensions = _fields(_CLIENT_FIRST, data)
    further = extensions.split(",")[1:] if extensions else ()
    return ClientFirst(
        unescaped(user),
        nonce,
        unescaped(authorization_id) if authorization_id else "",
        tuple([(name, value) for name, _, value in [each.partition("=") for each in further]]),
    )


def decode_server_first(data: bytes) -> ServerFirst:
    """Raises Malformed."""
    nonce, salt, iterations = _fields(_SERVER_FIRST, data)
    return ServerFirst(nonce, _bytes(salt), int(iterations))


def decode_client_final(data: bytes) -> ClientFinal:
    """Raises Malformed."""
    without_proof, binding, nonce, proof = _fields(_CLIENT_FINAL, data)
    return ClientFinal(_bytes(binding), nonce, _bytes(proof), without_proof)


def decode_server_final(data: bytes) -> ServerFinal:
    """Raises Malformed."""
    error, signature = _fields(_SERVER_FINAL, data)
    return ServerFinal(error=error) if error else ServerFinal(_bytes(signature))


def auth_message(client_first: ClientFirst, server_first: bytes, client_final: ClientFinal) -> bytes:
    """The text that both sides sign."""
    return b",".join((client_first.bare.encode(), server_first, client_final.without_proof.encode()))


def salt_of(random: bytes) -> bytes:
    """A salt as Kafka's tools make it of random bytes: a number of 130 bits, with digits and small letters."""
    number, digits = int.from_bytes(random[:17], "big") >> 6, b""
    while number:
        number, digit = divmod(number, 36)
        digits += b"0123456789abcdefghijklmnopqrstuvwxyz"[digit : digit + 1]
    return digits


def xor(one: bytes, other: bytes) -> bytes:
    """Both must have the same length."""
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _fields(pattern: re.Pattern[str], data: bytes) -> tuple[Any, ...]:
    """The groups of a message, in their order."""
    if len(data) > MOST_MESSAGE_BYTES:
        raise MalformedScram(f"a message of {len(data)} bytes, of {MOST_MESSAGE_BYTES} at most")
    try:
        found = pattern.fullmatch(data.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise MalformedScram("a message that is none of SCRAM")
    return found.groups()


def _bytes(text: str) -> bytes:
    try:
        return a2b_base64(text, strict_mode=True)
    except Base64Error:
        raise MalformedScram("a field of a SCRAM message is not base64") from None
