"""JKS, the key store format of older JVMs, read but never written.

A store is a header, its entries, and a SHA-1 of both with the password before them. A private key is encrypted with
Sun's "key protector": a stream of SHA-1 digests of the password. Both are weak, so the file must be kept as safe as the
key itself. Invariant: no length is believed before it is compared with the bytes that are there.
"""

import hashlib
import hmac
from itertools import repeat
from struct import Struct
from typing import Final

from kpybroker.security.tls.der import OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, MalformedDer, object_identifier, only
from kpybroker.security.tls.pem import KeyEntry, private_key_pem
from kpybroker.security.tls.settings import TlsError

_HEADER: Final = Struct(">4sII")
_NUMBER: Final = Struct(">I")
_LENGTH: Final = Struct(">H")
_DIGEST_BYTES: Final = 20
_DATE_BYTES: Final = 8
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_KEY_PROTECTOR: Final = "1.3.6.1.4.1.42.2.17.1.1"
_WHITENER: Final = b"Mighty Aphrodite"


class _StoreReader:
    """The bytes of a store between its header and its digest."""

    def __init__(self, name: str, data: bytes) -> None:
        self._name = name
        self._data = data
        self._position = 0
        self._end = len(data) - _DIGEST_BYTES

    def take(self, count: int) -> bytes:
        if count > self._end - self._position:
            raise TlsError(f"{self._name} is damaged: it ends too early")
        start, self._position = self._position, self._position + count
        return self._data[start : self._position]

    def number(self) -> int:
        return int(_NUMBER.unpack(self.take(_NUMBER.size))[0])

    def text(self) -> str:
        return self.take(_LENGTH.unpack(self.take(_LENGTH.size))[0]).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.text()) != "X.509":
            raise TlsError(f"{self._name} has a certificate that is not X.509: {kind[:20]!r}")
        return self.take(self.number())


def read_jks(
    name: str, data: bytes, password: str | None, key_password: str | None, *, only_trusted: bool = False
) -> tuple[tuple[KeyEntry, ...], tuple[bytes, ...]]:
    """The entries with private keys, and the trusted certificates as DER. Raises TlsError.

    Without ``password`` the store's digest is not checked; ``key_password`` is the one of the keys, if it differs.
    ``only_trusted`` leaves the keys encrypted: their entries are empty.
    """
    if len(data) < _HEADER.size + _DIGEST_BYTES:
        raise TlsError(f"{name} is damaged: it ends too early")
    if password is not None:
        _check_digest(name, data, password)
    reader = _StoreReader(name, data)
    _, version, count = _HEADER.unpack(reader.take(_HEADER.size))
    if version not in (1, 2):
        raise TlsError(f"{name} is a JKS store of version {version}, which is not known")
    entries: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        kind = reader.number()
        reader.text()
        reader.take(_DATE_BYTES)
        if kind == _CERTIFICATE:
            trusted.append(reader.certificate(version))
        elif kind == _PRIVATE_KEY:
            protected = reader.take(reader.number())
            chain = tuple(map(reader.certificate, repeat(version, reader.number())))
            if only_trusted:
                entries.append(KeyEntry("", None, chain))
                continue
            if not chain:
                raise TlsError(f"{name} has a private key without a certificate")
            secret = password if key_password is None else key_password
            key = _unprotected(name, protected, secret or "")
            entries.append(KeyEntry(private_key_pem(key), None, chain))
        else:
            raise TlsError(f"{name} is damaged, or no JKS store: it has an entry of kind {kind}")
    return tuple(entries), tuple(trusted)


def _check_digest(name: str, data: bytes, password: str) -> None:
    digest = hashlib.sha1(_utf16(password) + _WHITENER + data[:-_DIGEST_BYTES], usedforsecurity=False).digest()
    if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
        raise TlsError(f"{name} cannot be read as JKS: its password is wrong, or it is damaged")


def _unprotected(name: str, protected: bytes, password: str) -> bytes:
    """A private key as PKCS#8, out of the key protector's form: salt, encrypted key, digest."""
    try:
        algorithm, sealed = only(protected, SEQUENCE).values()
        oid = algorithm.values()[0]
    except (MalformedDer, ValueError, IndexError):
        raise TlsError(f"{name} is damaged: a private key cannot be read") from None
    is_known = oid.tag == OBJECT_IDENTIFIER and sealed.tag == OCTET_STRING
    if not is_known or _oid(oid.content) != _KEY_PROTECTOR or len(sealed.content) < 2 * _DIGEST_BYTES:
        raise TlsError(f"{name} has a private key that is encrypted in an unknown way")
    secret = _utf16(password)
    digest, encrypted = sealed.content[:_DIGEST_BYTES], sealed.content[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream = bytearray()
    while len(stream) < len(encrypted):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        stream += digest
    size = len(encrypted)
    key = (int.from_bytes(encrypted, "big") ^ int.from_bytes(stream[:size], "big")).to_bytes(size, "big")
    expected = hashlib.sha1(secret + key, usedforsecurity=False).digest()
    if not hmac.compare_digest(expected, sealed.content[-_DIGEST_BYTES:]):
        raise TlsError(f"{name}: a private key has another password than the store; set ssl.key.password")
    return key


def _oid(content: bytes) -> str:
    try:
        return object_identifier(content)
    except MalformedDer:
        return ""


def _utf16(password: str) -> bytes:
    """A password as bytes, in Java's way: two for each of its chars."""
    return password.encode("utf-16-be", "surrogatepass")
