"""A certificate authority of one's own: for ``kpybroker start --secure`` and for brokers in tests.

Keys are of the curve P-256. Takes the library ``cryptography`` (extra ``security``), which is loaded with this module.
"""

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 397
"""The longest time for which common clients accept the certificate of a server."""
SKEW: Final = timedelta(hours=1)
"""The difference between clocks within which a new certificate is valid at once."""


class Issued(NamedTuple):
    """A key and its certificate, both as PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return f"Issued(certificate={self.certificate!r})"

    @property
    def pem(self) -> str:
        """Both in one text, as ``ssl.keystore.type=PEM`` expects it."""
        return self.key + self.certificate


class Authority:
    """A certificate that issues others, and its key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def made(cls, name: str, now: datetime) -> "Authority":
        """A new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        built = (
            _begun(subject, subject, key.public_key(), now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(key, built.sign(key, hashes.SHA256()))

    @classmethod
    def read(cls, pem: str) -> "Authority":
        """The one whose key and certificate are in a text. Raises ValueError."""
        key = load_pem_private_key(pem.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the key is not of an elliptic curve")
        return cls(key, x509.load_pem_x509_certificate(pem.encode()))

    @property
    def issued(self) -> Issued:
        """Its own key and certificate."""
        return Issued(_key_pem(self._key), _pem(self._certificate))

    def issue(self, name: str, hosts: Iterable[str], now: datetime, days: float = CERTIFICATE_DAYS) -> Issued:
        """A certificate for a server with these host names and addresses, or for a client with none."""
        key = ec.generate_private_key(ec.SECP256R1())
        built = (
            _begun(_name(name), self._certificate.subject, key.public_key(), now, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        names = [_alternative(host) for host in dict.fromkeys(hosts)]
        if names:
            built = built.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Issued(_key_pem(key), _pem(built.sign(self._key, hashes.SHA256())))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, days: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now - SKEW, now + timedelta(days=days) - SKEW))
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
