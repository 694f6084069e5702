"""Log lines for failed TLS handshakes: the mistake of the client, or of this listener, and how to mend it.

Most clients show nothing of this kind, so only the broker's log distinguishes these mistakes.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class TlsFailure(OSError):
    """A handshake has failed. The text is the reason for the log."""


class ListenerTerms(NamedTuple):
    """The terms of one listener, for its log lines."""

    listener: str
    protocol: str
    """SSL or SASL_SSL."""
    certificate: str
    """The names in this listener's certificate."""
    client_auth: str

    def __str__(self) -> str:
        return f"listener {self.listener} ({self.protocol})"


_DISTRUST: Final = (
    "ALERT_UNKNOWN_CA",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE_EXPIRED",
)
_OTHER_VERSION: Final = (
    "UNSUPPORTED_PROTOCOL", "UNKNOWN_PROTOCOL", "VERSION_TOO_LOW", "WRONG_VERSION_NUMBER", "WRONG_SSL_VERSION",
    "ALERT_PROTOCOL_VERSION",
)  # fmt: skip


def without_tls(terms: ListenerTerms, first_byte: int) -> TlsFailure:
    """The first byte of a client is not that of a TLS handshake."""
    if first_byte in b"GPHOCD":  # GET, POST, PUT, HEAD, OPTIONS, CONNECT, DELETE
        return TlsFailure(f"it speaks HTTP on {terms}, which serves Kafka's clients over TLS")
    return TlsFailure(
        f"it speaks without TLS on {terms}; set security.protocol={terms.protocol} in that client, or use the port of "
        "a listener without TLS"
    )


def left_early(terms: ListenerTerms) -> TlsFailure:
    """The client has closed the connection in the middle of its handshake."""
    return TlsFailure(
        f"it left during the TLS handshake on {terms}; clients do so that do not trust the certificate or do not find "
        f"the host's name in it ({terms.certificate})"
    )


def out_of_patience(terms: ListenerTerms, seconds: float) -> TlsFailure:
    """The handshake did not end in time."""
    return TlsFailure(f"it did not finish the TLS handshake on {terms} within {seconds:g} s")


def failed(error: ssl.SSLError, terms: ListenerTerms) -> TlsFailure:
    """A handshake that OpenSSL has ended."""
    reason = error.reason or ""
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return TlsFailure(
            f"it sent no client certificate on {terms}, and ssl.client.auth={terms.client_auth}; give that client a "
            "key store (ssl.keystore.location)"
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return _refused(terms, error.verify_message)
    if reason.endswith(_DISTRUST):
        alert = reason.partition("ALERT_")[2].lower()
        return TlsFailure(
            f"it does not accept the certificate of {terms} (alert {alert}; {terms.certificate}); give that client the "
            "issuer's certificate (ssl.truststore.location, ssl.ca.location), and connect to a name in the certificate"
        )
    if reason.endswith(_OTHER_VERSION):
        return TlsFailure(
            f"it speaks no version of TLS that {terms} allows; update that client, or see ssl.enabled.protocols"
        )
    if reason == "NO_SHARED_CIPHER" or reason.endswith("ALERT_HANDSHAKE_FAILURE"):
        return TlsFailure(f"it has no cipher suite in common with {terms}; see ssl.cipher.suites on both sides")
    return TlsFailure(f"its TLS handshake failed on {terms} ({reason.lower() or 'malformed'})")


def check_resumed(certificate: Mapping[str, Any] | None, now_ms: int, terms: ListenerTerms) -> None:
    """Raise TlsFailure if the certificate of a client has expired since the handshake whose session it resumes."""
    ends = (certificate or {}).get("notAfter")
    if ends is not None and now_ms >= ssl.cert_time_to_seconds(ends) * 1000:
        raise _refused(terms, "certificate has expired")


def _refused(terms: ListenerTerms, why: str) -> TlsFailure:
    return TlsFailure(
        f"its client certificate is refused on {terms} ({why}); renew it, or add its issuer to the listener's trust "
        "store (ssl.truststore.location)"
    )
