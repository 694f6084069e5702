"""Private keys and certificates as PEM (RFC 7468), and the form in which every kind of store gives its keys."""

import base64
import re
import ssl
from typing import Final, NamedTuple

from kpybroker.security.tls.settings import TlsError

_BLOCK: Final = re.compile(r"-+BEGIN\s+([A-Z0-9 ]*?)\s*-+\s+(.*?)\s*-+END\s+\1\s*-+", re.DOTALL)
_HEADER: Final = re.compile(r"\s*([^\r\n:]+:[^\r\n]*[\r\n]+)")


class KeyEntry(NamedTuple):
    """A private key as PEM, the password that it may be encrypted with, and its certificates, its own first, as DER."""

    key: str
    password: str | None
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyEntry({len(self.chain)} certificates)"


def entry_in(name: str, key_text: str, chain_text: str, password: str | None) -> KeyEntry:
    """The first private key of a text and the certificates of another, or of the same text."""
    keys = [block for block in _blocks(key_text) if block[0].endswith("PRIVATE KEY")]
    if not keys:
        raise TlsError(f"{name}: Private key not provided")
    chain = certificates_in("ssl.keystore.certificate.chain" if chain_text is not key_text else name, chain_text)
    return KeyEntry(_as_pem(*keys[0]), password, chain)


def certificates_in(name: str, text: str) -> tuple[bytes, ...]:
    """The certificates of a text as DER; there is at least one. Raises TlsError."""
    found = []
    for label, body in _blocks(text):
        if label in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            try:
                found.append(ssl.PEM_cert_to_DER_cert(_as_pem("CERTIFICATE", body)))
            except ValueError:
                raise TlsError(f"{name}: certificate {len(found) + 1} is damaged") from None
    if not found:
        raise TlsError(f"{name}: At least one certificate expected, but none found")
    return tuple(found)


def _blocks(text: str) -> list[tuple[str, str]]:
    """(label, body) of each block. White space between base64 characters does not count, so that a whole block may
    stand in one line of a properties file."""
    return [(match[1], match[2]) for match in _BLOCK.finditer(text)]


def _as_pem(label: str, body: str) -> str:
    """A block in the layout that OpenSSL reads. Headers, which say how a key is encrypted, stay."""
    headers = ""
    while (header := _HEADER.match(body)) is not None:
        headers += header[1].strip() + "\n"
        body = body[header.end() :]
    digits = "".join(body.split())
    lines = [digits[start : start + 64] for start in range(0, len(digits), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *([headers] if headers else []), *lines, f"-----END {label}-----\n"])


def private_key_pem(pkcs8: bytes) -> str:
    """A private key (PKCS#8, not encrypted) as PEM."""
    return _as_pem("PRIVATE KEY", base64.b64encode(pkcs8).decode())
