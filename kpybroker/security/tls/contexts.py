"""The ``ssl.SSLContext`` of a listener and of a client, made of Kafka's ``ssl.*`` settings.

Kafka's ``DefaultSslEngineFactory``. Both kinds have neither compression nor renegotiation, and give no tickets. Of
TLS 1.2, OpenSSL resumes sessions by their ids, up to 20 480 for two hours, with the same context only.
Certificates are verified as in a JVM: each certificate of a trust store is an anchor, whether a root or not; without a
trust store those of the system count.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kpybroker.security.tls.pem import KeyEntry
from kpybroker.security.tls.settings import (
    CLIENT_AUTH_REQUESTED,
    CLIENT_AUTH_REQUIRED,
    NO_CLIENT_AUTH,
    TlsError,
    TlsSettings,
)
from kpybroker.security.tls.stores import read_key_store, read_trust_store

_VERIFY_MODES: Final = {
    NO_CLIENT_AUTH: ssl.CERT_NONE,
    CLIENT_AUTH_REQUESTED: ssl.CERT_OPTIONAL,
    CLIENT_AUTH_REQUIRED: ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_DISABLED_EVERYWHERE: Final = frozenset({"SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1"})
"""Protocols that JVMs know and have switched off, and so has OpenSSL."""
SUITES_OF_TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a listener. Reads the stores; raises TlsError."""
    return server_context_of(settings, read_key_store(settings))


def server_context_of(settings: TlsSettings, entries: tuple[KeyEntry, ...]) -> ssl.SSLContext:
    """Like `server_context`, for a key store that was read already."""
    if not entries:
        raise TlsError(
            "no key store is set; set ssl.keystore.location, or ssl.keystore.key with ssl.keystore.certificate.chain"
        )
    if settings.client_auth not in _VERIFY_MODES:
        raise TlsError(f"ssl.client.auth={settings.client_auth}: use one of {', '.join(_VERIFY_MODES)}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _apply(context, settings, entries)
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    context.verify_mode = _VERIFY_MODES[settings.client_auth]
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a client. ``server_hostname`` must be given with each connection. Reads the stores; raises
    TlsError."""
    algorithm = settings.endpoint_identification_algorithm.lower()
    if algorithm not in ("", "https"):
        raise TlsError(f"ssl.endpoint.identification.algorithm={algorithm}: use https, or nothing to check no names")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _apply(context, settings, read_key_store(settings))
    context.check_hostname = bool(algorithm)
    return context


def _apply(context: ssl.SSLContext, settings: TlsSettings, entries: tuple[KeyEntry, ...]) -> None:
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    _choose_protocols_and_suites(context, settings)
    for entry in reversed(entries):  # OpenSSL keeps the last of each kind of key
        _load_key(context, entry)
    trusted = read_trust_store(settings)
    is_server = context.protocol == ssl.PROTOCOL_TLS_SERVER
    if is_server and settings.client_auth == NO_CLIENT_AUTH:
        # In each handshake OpenSSL would look there for the issuers of its own certificate, on the disk too.
        _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), trusted or ())
    elif trusted is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH if is_server else ssl.Purpose.SERVER_AUTH)
    else:
        _trust(context, trusted)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _trust(context: ssl.SSLContext, certificates: tuple[bytes, ...]) -> None:
    for number, certificate in enumerate(dict.fromkeys(certificates), 1):
        try:
            context.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError):
            raise TlsError(f"certificate {number} of the trust store is damaged") from None


# The key


def _load_key(context: ssl.SSLContext, entry: KeyEntry) -> None:
    text = "".join([*map(ssl.DER_cert_to_PEM_cert, entry.chain), entry.key])

    def password() -> str:
        if not entry.password:
            raise TlsError("the private key is encrypted; set ssl.key.password")
        return entry.password

    try:
        with _file_with(text.encode("latin-1")) as path:
            context.load_cert_chain(path, password=password)
    except ssl.SSLError as error:
        raise TlsError(_key_mistake(error, is_encrypted="ENCRYPTED" in entry.key)) from None
    except OSError as error:
        raise TlsError(f"the private key cannot be loaded: {error.strerror or error}") from None


def _key_mistake(error: ssl.SSLError, *, is_encrypted: bool) -> str:
    reason = error.reason or ""
    if reason == "KEY_VALUES_MISMATCH":
        return "the private key and the first certificate of the key store do not belong together"
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
        return f"OpenSSL refuses the certificate as too weak ({reason.lower()}); make one with a larger key and SHA-256"
    if is_encrypted:
        return "the private key cannot be decrypted: ssl.key.password is wrong"
    return f"the private key or its certificate cannot be used ({reason.lower() or 'damaged'})"


@contextmanager
def _file_with(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes, which exists only meanwhile and only for this user: ``ssl`` reads keys from
    files alone. On Linux it is in memory."""
    if hasattr(os, "memfd_create") and os.path.exists("/proc/self/fd"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "key.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        yield path


# Protocols and cipher suites


def _choose_protocols_and_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    protocols = settings.enabled_protocols
    for protocol in protocols:
        if protocol not in _VERSIONS and protocol not in _DISABLED_EVERYWHERE:
            raise TlsError(f"ssl.enabled.protocols: {protocol} is not known; use {' and '.join(_VERSIONS)}")
    enabled = [protocol for protocol in _VERSIONS if protocol in protocols]
    if not enabled:
        old = ", ".join(protocols)
        raise TlsError(f"ssl.enabled.protocols: {old} is not safe and is not spoken; use {' and '.join(_VERSIONS)}")
    if settings.cipher_suites:
        enabled = _choose_suites(context, settings.cipher_suites, enabled)
    # The lower bound first would be refused if it were above a maximum of the system's configuration.
    context.maximum_version = _VERSIONS[enabled[-1]]
    context.minimum_version = _VERSIONS[enabled[0]]


def _choose_suites(context: ssl.SSLContext, suites: tuple[str, ...], enabled: list[str]) -> list[str]:
    """Allow these suites only. Return the protocols that are left: each needs one suite at least."""
    newest = [suite for suite in suites if suite in SUITES_OF_TLS_1_3]
    older = [suite for suite in suites if suite not in newest]
    left = [protocol for protocol in enabled if (newest if protocol == "TLSv1.3" else older)]
    if not left:
        raise TlsError(f"ssl.cipher.suites has no suite for {' and '.join(enabled)}")
    if "TLSv1.3" in left and set(newest) != set(SUITES_OF_TLS_1_3):
        choose = getattr(context, "set_ciphersuites", None)  # Python 3.15
        if choose is None:
            raise TlsError(
                "ssl.cipher.suites: this Python cannot choose among the suites of TLS 1.3; "
                f"name all of them ({', '.join(SUITES_OF_TLS_1_3)}), or none"
            )
        choose(":".join(newest))
    names = [openssl_name(suite) for suite in older]
    if names:
        try:
            context.set_ciphers(":".join(names))
        except ssl.SSLError:
            raise TlsError(f"ssl.cipher.suites: none of {', '.join(older)} is known to OpenSSL") from None
        known = {cipher["name"] for cipher in context.get_ciphers()}
        for suite, name in zip(older, names, strict=True):
            if name not in known:
                raise TlsError(f"ssl.cipher.suites: {suite} is not known to OpenSSL, or not safe")
    return left


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a suite for TLS 1.2 that is given by its IANA name."""
    exchange, separator, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not separator or not suite.startswith("TLS_"):
        raise TlsError(
            f"ssl.cipher.suites: {suite} is no name of a suite, such as TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
        )
    for long, short in (("AES_", "AES"), ("_CBC", ""), ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"), ("_", "-")):
        cipher = cipher.replace(long, short)
    cipher = cipher.removesuffix("-8") + "8" if cipher.endswith("CCM-8") else cipher
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    return prefix + cipher
