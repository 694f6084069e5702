"""The certificate of a server in words: for whom it is, who issued it, until when it is valid.

Reading one that is not trusted takes the library ``cryptography``; without it nothing is known of it.
"""

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from cryptography.x509 import Extensions


class Certificate(NamedTuple):
    """The parts of a certificate that users ask for."""

    subject: str
    issuer: str
    names: tuple[str, ...]
    """The host names and addresses for which it is valid."""
    begins: datetime
    ends: datetime

    def time_left_s(self, now: datetime | None = None) -> float:
        """The time until it expires; negative if it has expired."""
        return (self.ends - (now or datetime.now(UTC))).total_seconds()

    @property
    def is_self_signed(self) -> bool:
        return self.subject == self.issuer


def of_der(der: bytes) -> Certificate | None:
    """The certificate, or None if it cannot be read here."""
    with contextlib.suppress(ImportError, ValueError):
        from cryptography import x509

        found = x509.load_der_x509_certificate(der)
        return Certificate(
            found.subject.rfc4514_string(),
            found.issuer.rfc4514_string(),
            _names(found.extensions),
            found.not_valid_before_utc,
            found.not_valid_after_utc,
        )
    return None


def _names(extensions: "Extensions") -> tuple[str, ...]:
    from cryptography import x509

    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    hosts = found.get_values_for_type(x509.DNSName)
    return (*hosts, *(str(address) for address in found.get_values_for_type(x509.IPAddress)))
