"""The meaning of facts about listeners with TLS or a login, for ``kpybroker doctor``. Pure.

Certificates are compared with the hosts that brokers advertise, since clients do the same.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from ipaddress import ip_address
from typing import Final, NamedTuple

from kpybroker.cli.diagnoses import GOOD, PROBLEM, UNKNOWN, WARNING, Diagnosis
from kpybroker.cli.listener_addresses import ListenerAddress
from kpybroker.client.certificate import Certificate
from kpybroker.client.client import PLAINTEXT

DAY_S: Final = 86_400
SOON_DAYS: Final = 30
CHECK: Final = "listeners"
NAMED_AT_MOST: Final = 6


class ProbedListener(NamedTuple):
    """A listener as tested from here."""

    listener: ListenerAddress
    has_tls: bool
    is_plain: bool
    """Whether it speaks Kafka's protocol without TLS."""
    shows_certificate: bool
    certificate: Certificate | None
    """None if there is none, or if it cannot be read here."""
    mechanisms: tuple[str, ...]
    """The mechanisms of the login that it demands."""


def listeners(found: Iterable[ProbedListener], now: datetime) -> Iterator[Diagnosis]:
    """Whether each listener speaks what it is configured for, and shows a certificate that clients accept."""
    for each in found:
        if each.listener.protocol == PLAINTEXT:
            continue
        yield from _listener(each, now)


def _listener(each: ProbedListener, now: datetime) -> Iterator[Diagnosis]:
    listener, certificate = each.listener, each.certificate
    place = f"listener {listener} of broker {listener.broker} ({listener.protocol})"
    wants_tls = listener.protocol.endswith("SSL")
    if not each.has_tls and not each.is_plain:
        yield Diagnosis(CHECK, UNKNOWN, f"{place} does not answer from here")
        return
    if wants_tls != each.has_tls:
        yield Diagnosis(
            CHECK,
            PROBLEM,
            f"{place} speaks {'TLS' if each.has_tls else 'Kafka without TLS'}",
            "Another server answers at this address, or listener.security.protocol.map is not the one in use.",
        )
        return
    if listener.protocol == "SASL_PLAINTEXT" and "PLAIN" in each.mechanisms and not _is_loopback(listener.host):
        yield Diagnosis(
            CHECK,
            WARNING,
            f"{place} takes passwords by PLAIN without TLS: everybody on the way can read them",
            "Use SASL_SSL, or a mechanism that does not send the password, such as SCRAM-SHA-512.",
        )
    logins = f"logins by {', '.join(each.mechanisms)}" if each.mechanisms else "no login"
    if not wants_tls:
        yield Diagnosis(CHECK, GOOD, f"{place}: {logins}")
    elif certificate is None:
        why = "install kpybroker[security] to read it" if each.shows_certificate else "it shows none"
        yield Diagnosis(CHECK, UNKNOWN, f"the certificate of {place} could not be read: {why}; {logins}")
    else:
        yield from _certificate(place, listener, certificate, logins, now)


def _certificate(
    place: str, listener: ListenerAddress, certificate: Certificate, logins: str, now: datetime
) -> Iterator[Diagnosis]:
    names = certificate.names
    listed = ", ".join(names[:NAMED_AT_MOST]) + (", ..." if len(names) > NAMED_AT_MOST else "") or "no host"
    days = certificate.time_left_s(now) / DAY_S
    ends = f"{certificate.ends:%Y-%m-%d}"
    if days < 0 or certificate.begins > now:
        which = f"expired on {ends}" if days < 0 else f"is not valid before {certificate.begins:%Y-%m-%d}"
        yield Diagnosis(CHECK, PROBLEM, f"the certificate of {place} {which}", "Give the broker a new certificate.")
    elif days < SOON_DAYS:
        yield Diagnosis(
            CHECK,
            WARNING,
            f"the certificate of {place} expires on {ends}, in {int(days)} days",
            "Replace the key store, and alter ssl.keystore.location of the listener; connections stay open.",
        )
    if not is_for(certificate, listener.host):
        yield Diagnosis(
            CHECK,
            PROBLEM,
            f"the certificate of {place} is for {listed}, and not for {listener.host}, where clients are sent",
            "Issue one with this name in subjectAltName, or advertise one of its names.",
        )
    elif days >= SOON_DAYS and certificate.begins <= now:
        issuer = "self-signed" if certificate.is_self_signed else f"issued by {certificate.issuer}"
        yield Diagnosis(CHECK, GOOD, f"{place}: certificate for {listed}, {issuer}, valid until {ends}; {logins}")


def is_for(certificate: Certificate, host: str) -> bool:
    """Whether a certificate is for a host name or an address (RFC 6125; ``*`` stands for the first label alone)."""
    wanted = host.lower().rstrip(".")
    for name in certificate.names:
        known = name.lower().rstrip(".")
        if known == wanted or _same_address(known, wanted):
            return True
        if known.startswith("*.") and wanted.partition(".")[2] == known[2:] and not _is_address(wanted):
            return True
    return False


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _same_address(one: str, other: str) -> bool:
    return _is_address(one) and _is_address(other) and ip_address(one) == ip_address(other)


def _is_loopback(host: str) -> bool:
    return host.lower() == "localhost" or (_is_address(host) and ip_address(host).is_loopback)
