"""Certificates for tests, made in milliseconds: authorities, certificates of servers and clients, and their files."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_DAY = datetime.timedelta(days=1)


def name_of(common_name: str) -> x509.Name:
    """A distinguished name with one part."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class Certificate:
    """A certificate with its key, and the certificates that lead to a root."""

    def __init__(self, certificate: x509.Certificate, key: Any, issuers: Sequence[x509.Certificate] = ()) -> None:
        self.certificate = certificate
        self.key = key
        self.issuers = tuple(issuers)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def chain_pem(self) -> str:
        """The certificate, and those that were used to issue it, without the root."""
        chain = [self.certificate, *(each for each in self.issuers if each.issuer != each.subject)]
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in chain)

    def key_pem(self, password: str = "") -> str:
        """The key as PKCS#8, encrypted if there is a password."""
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        pem: bytes = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        return pem.decode()

    def save_pem(self, path: Path, password: str = "") -> Path:
        """Write key and chain into one file, as Kafka expects it (``ssl.keystore.type=PEM``)."""
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def save_pkcs12(self, path: Path, password: str, alias: str = "kafka") -> Path:
        """Write a key store of type PKCS12."""
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                alias.encode(), self.key, self.certificate, list(self.issuers), encryption
            )
        )
        return path


class Authority(Certificate):
    """A certificate that issues others."""

    def __init__(self, common_name: str = "Test authority", issuer: "Authority | None" = None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        issued = _issue(name_of(common_name), key.public_key(), issuer, key, _AUTHORITY)
        super().__init__(issued, key, () if issuer is None else (issuer.certificate, *issuer.issuers))

    @property
    def pem(self) -> str:
        """The certificate that others trust."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def save(self, path: Path) -> Path:
        """Write the certificate that others trust (``ssl.truststore.type=PEM``, ``ssl.ca.location``)."""
        path.write_text(self.pem)
        return path

    def issue(
        self,
        name: str | x509.Name = "localhost",
        hosts: Sequence[str] = LOOPBACK,
        *,
        key: Any = None,
        days: tuple[float, float] = (-1, 2),
        usage: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    ) -> Certificate:
        """A certificate for servers and clients. ``days`` is the time for which it is valid, counted from now."""
        key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        subject = name_of(name) if isinstance(name, str) else name
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.ExtendedKeyUsage(usage), False),
        ]
        if hosts:
            extensions.append((x509.SubjectAlternativeName([_alternative(host) for host in hosts]), False))
        issued = _issue(subject, key.public_key(), self, self.key, extensions, days)
        return Certificate(issued, key, (self.certificate, *self.issuers))


_AUTHORITY: list[tuple[x509.ExtensionType, bool]] = [
    (x509.BasicConstraints(ca=True, path_length=None), True),
    (x509.KeyUsage(False, False, False, False, False, True, True, False, False), True),
]


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _issue(
    subject: x509.Name,
    public_key: Any,
    issuer: "Authority | None",
    key: Any,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    days: tuple[float, float] = (-1, 365),
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * _DAY)
        .not_valid_after(now + days[1] * _DAY)
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(key if issuer is None else issuer.key, hashes.SHA256())
