"""The reason why a connection to a broker failed, in one line that says what to change: TLS, certificates, a login, or
another protocol.

Where an error does not tell the cause, the server is asked again (`kpybroker.client.probes`). Blocks.
"""

import socket
import ssl
from typing import Final, NamedTuple

from kpybroker.client import probes
from kpybroker.client.certificate import Certificate, of_der
from kpybroker.client.login import wants_login
from kpybroker.client.protection import ConnectionProtection
from kpybroker.client.security import PROTOCOL_KEY, SASL

# X509_V_ERR_... of OpenSSL.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_NAME: Final = (62, 64)
_ALERTS_OF_CERTIFICATES: Final = (
    "BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REQUIRED",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_UNKNOWN",
    "UNKNOWN_CA",
    "UNSUPPORTED_CERTIFICATE",
)
_NO_COMMON: Final = (
    "HANDSHAKE_FAILURE",
    "PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "NO_SHARED_CIPHER",
    "VERSION_TOO_LOW",
)
WEB_SERVER: Final = "a web server, or a broker's second port with its metrics; Kafka's usual port is 9092"
TLS_LISTENER: Final = (
    f"a listener with TLS; set {PROTOCOL_KEY}=SSL, or SASL_SSL if it demands a login, by --command-config or -X"
)
ALERT_S: Final = 0.2
"""The time to wait for an alert on a connection that is lost."""
_NAMED_AT_MOST: Final = 8


class GivenAddress(NamedTuple):
    """The server: its address as the user gave it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def other_protocol(name: str, place: object) -> str:
    """The line for a server that speaks one of `OTHER_PROTOCOLS`."""
    return f"{place} speaks {name}, not Kafka's protocol: {TLS_LISTENER if name == 'TLS' else WEB_SERVER}"


def why_closed(place: GivenAddress, protection: ConnectionProtection | None, *, is_greeted: bool) -> str:
    """The line for a server that closed a connection before it answered anything but the greeting, if even that; empty
    if the reason is unknown."""
    has_tls = protection is not None and protection.has_tls
    if not is_greeted and not has_tls:
        if probes.is_http(*place):
            return other_protocol("HTTP", place)
        if probes.is_tls(*place):
            return other_protocol("TLS", place)
    if is_greeted and (protection is None or protection.login is None):
        enabled = probes.mechanisms(*place, protection.context if protection is not None and has_tls else None)
        return wants_login(str(place), enabled, has_tls=has_tls) if enabled else ""
    return ""


def handshake_failed(error: OSError, place: GivenAddress, protection: ConnectionProtection) -> str:
    """The line for a handshake that failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_verified(error, place)
    alert = alert_in_words(error, place, protection)
    if alert:
        return alert
    if probes.is_kafka(*place):
        also = f", or {SASL} if it demands a login" if protection.login is None else ""
        bare = "PLAINTEXT" if protection.login is None else SASL
        return f"{place} speaks Kafka's protocol without TLS: set {PROTOCOL_KEY}={bare}{also}"
    if probes.is_http(*place):
        return other_protocol("HTTP", place)
    if isinstance(error, TimeoutError):
        return f"{place} does not answer the TLS handshake in time"
    return f"the TLS handshake with {place} failed: {_plain(error)}"


def alert_in_words(error: OSError, place: GivenAddress, protection: ConnectionProtection) -> str:
    """The line for an alert that the server sent; empty if it was something else. A server may demand a certificate
    after the handshake (TLS 1.3)."""
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if reason.endswith(_ALERTS_OF_CERTIFICATES):
        if not protection.has_certificate:
            return (
                f"{place} demands a client certificate: set ssl.keystore.location (PKCS12, JKS or PEM), "
                "or ssl.certificate.location and ssl.key.location"
            )
        why = reason.rpartition("_ALERT_")[2].replace("_", " ").lower()
        return (
            f"{place} refuses this client's certificate ({why}): the CA that issued it must be in the broker's "
            "ssl.truststore, and the certificate must be valid"
        )
    if reason.endswith(_NO_COMMON):
        if reason.endswith("HANDSHAKE_FAILURE") and not protection.has_certificate:
            why = "no cipher suite in common, or it demands a client certificate (ssl.keystore.location)"
        else:
            why = "no TLS version or cipher suite in common: see ssl.enabled.protocols and ssl.cipher.suites"
        return f"the TLS handshake with {place} failed: {why}"
    return ""


def alert_behind(error: OSError, peer: socket.socket, place: GivenAddress, protection: ConnectionProtection) -> str:
    """The line for the alert that came before a connection was lost; empty if there was none. A request may fail to
    be sent before the alert was read."""
    if isinstance(error, ConnectionError):
        peer.settimeout(ALERT_S)
        try:
            peer.recv(1)
        except OSError as later:
            error = later
    return alert_in_words(error, place, protection)


def _not_verified(error: ssl.SSLCertVerificationError, place: GivenAddress) -> str:
    der = probes.certificate(*place)
    found = None if der is None else of_der(der)
    if error.verify_code in _OTHER_NAME:
        return _other_name(place, found)
    if error.verify_code == _EXPIRED:
        when = f" on {found.ends:%Y-%m-%d}" if found is not None and found.time_left_s() < 0 else ""
        return f"the certificate of {place} expired{when}, or one of those that issued it: the broker needs a new one"
    if error.verify_code == _NOT_YET_VALID:
        when = f" before {found.begins:%Y-%m-%d %H:%M} UTC" if found is not None else " yet"
        return f"the certificate of {place} is not valid{when}: compare the clocks of both machines"
    issuer = ""
    if found is not None:
        issuer = "; it is self-signed" if found.is_self_signed else f"; it was issued by {found.issuer[:200]}"
    return (
        f"the certificate of {place} is not trusted ({error.verify_message}){issuer}: give that CA to this client, by "
        "ssl.truststore.location or ssl.ca.location"
    )


def _other_name(place: GivenAddress, found: Certificate | None) -> str:
    names = () if found is None else found.names
    listed = ", ".join(names[:_NAMED_AT_MOST]) + (", ..." if len(names) > _NAMED_AT_MOST else "")
    has = f"it is for {listed}" if names else "it has no such name" if found is None else "it names no host at all"
    return (
        f"the certificate of {place} is not for {place.host}, {has}: connect by a name of the certificate, give the "
        "broker one with this name, or set ssl.endpoint.identification.algorithm= to check no names"
    )


def _plain(error: OSError) -> str:
    if isinstance(error, (ssl.SSLEOFError, ConnectionError)):
        return "the server closed the connection"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error)
