"""Key stores and trust stores: PEM (KIP-651), PKCS12 and JKS, each as keys in PEM and certificates in DER.

The first bytes of a file decide what it is, since JVMs read PKCS12 under the type JKS too. Combinations of settings
that Kafka's ``DefaultSslEngineFactory`` refuses are refused in its words.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from kpybroker.security.tls.jks import read_jks
from kpybroker.security.tls.pem import KeyEntry, certificates_in, entry_in
from kpybroker.security.tls.pkcs12 import read_pkcs12
from kpybroker.security.tls.settings import PEM, PKCS12, TlsError, TlsSettings

_KNOWN_TYPES: Final = ("JKS", PKCS12, PEM)
_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
MOST_BYTES: Final = 16 * 1024 * 1024


def read_key_store(settings: TlsSettings) -> tuple[KeyEntry, ...]:
    """The entries of the key store; none if none is set. Raises TlsError."""
    _check_type("ssl.keystore.type", settings.keystore_type)
    is_pem = settings.keystore_type.upper() == PEM
    path, password, key = settings.keystore_location, settings.keystore_password, settings.keystore_key
    chain = settings.keystore_certificate_chain
    if key is not None:
        if not is_pem:
            type_ = settings.keystore_type
            raise TlsError(f"SSL private key can be specified only for PEM, but key store type is {type_}.")
        if chain is None:
            raise TlsError("SSL private key is specified, but certificate chain is not specified.")
        if path is not None:
            raise TlsError("Both SSL key store location and separate private key are specified.")
        if password is not None:
            raise TlsError(
                "SSL key store password cannot be specified with PEM format, only key password may be specified."
            )
        return (entry_in("ssl.keystore.key", key, chain, settings.key_password),)
    if chain is not None:
        raise TlsError("SSL certificate chain is specified, but private key is not specified")
    if path is None:
        if password is not None:
            raise TlsError("SSL key store is not specified, but key store password is specified.")
        return ()
    name = f"ssl.keystore.location={path}"
    if is_pem:
        if password is not None:
            raise TlsError(
                "SSL key store password cannot be specified with PEM format, only key password may be specified"
            )
        text = _text_of(name, _read(name, path), "ssl.keystore.type")
        return (entry_in(name, text, text, settings.key_password),)
    data = _read(name, path)
    _refuse_pem(name, data, "ssl.keystore.type")
    if password is None:
        raise TlsError("SSL key store is specified, but key store password is not specified.")
    entries, _ = _read_store(name, data, password, settings.key_password)
    if not entries:
        raise TlsError(f"{name} has no private key")
    return entries


def read_trust_store(settings: TlsSettings) -> tuple[bytes, ...] | None:
    """The trusted certificates as DER; None if no trust store is set. Raises TlsError."""
    _check_type("ssl.truststore.type", settings.truststore_type)
    is_pem = settings.truststore_type.upper() == PEM
    path, password, inline = (
        settings.truststore_location, settings.truststore_password, settings.truststore_certificates,
    )  # fmt: skip
    if inline is not None:
        if not is_pem:
            type_ = settings.truststore_type
            raise TlsError(f"SSL trust store certs can be specified only for PEM, but trust store type is {type_}.")
        if path is not None:
            raise TlsError("Both SSL trust store location and separate trust certificates are specified.")
        if password is not None:
            raise TlsError("SSL trust store password cannot be specified for PEM format.")
        return certificates_in("ssl.truststore.certificates", inline)
    if path is None:
        if password is not None:
            raise TlsError("SSL trust store is not specified, but trust store password is specified.")
        return None
    name = f"ssl.truststore.location={path}"
    if is_pem:
        if password is not None:
            raise TlsError("SSL trust store password cannot be specified for PEM format.")
        return certificates_in(name, _text_of(name, _read(name, path), "ssl.truststore.type"))
    data = _read(name, path)
    _refuse_pem(name, data, "ssl.truststore.type")
    entries, trusted = _read_store(name, data, password, None, only_trusted=True)
    if not trusted:
        hint = "; it has a private key, is it a key store?" if entries else ""
        raise TlsError(f"{name} has no trusted certificate{hint}")
    return trusted


def _check_type(name: str, store_type: str) -> None:
    if store_type.upper() not in _KNOWN_TYPES:
        raise TlsError(f"{name}={store_type} cannot be read; use one of {', '.join(_KNOWN_TYPES)}")


def _read(name: str, path: str) -> bytes:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TlsError(f"{name} is no regular file")
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise TlsError(f"{name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise TlsError(f"{name} is no path of a file") from None
    if not data:
        raise TlsError(f"{name} is empty")
    if len(data) > MOST_BYTES:
        raise TlsError(f"{name} is too large for a store: more than {MOST_BYTES} bytes")
    return data


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting: a pipe would keep the caller until somebody writes into it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _read_store(
    name: str, data: bytes, password: str | None, key_password: str | None, *, only_trusted: bool = False
) -> tuple[tuple[KeyEntry, ...], tuple[bytes, ...]]:
    """The keys and the trusted certificates of a store that is not PEM."""
    if data.startswith(_JKS_MAGIC):
        return read_jks(name, data, password, key_password, only_trusted=only_trusted)
    if data.startswith(_JCEKS_MAGIC):
        raise TlsError(f"{name} is a JCEKS store; convert it: keytool -importkeystore -deststoretype PKCS12")
    if data[0] == 0x30:
        return read_pkcs12(name, data, password)
    raise TlsError(f"{name} is no key store of a kind that is known: JKS, PKCS12 or PEM")


# PEM


def _refuse_pem(name: str, data: bytes, type_name: str) -> None:
    if b"-----BEGIN " in data[:65536]:
        raise TlsError(f"{name} is a PEM file; set {type_name}=PEM")


def _text_of(name: str, data: bytes, type_name: str) -> str:
    if b"-----BEGIN " not in data:
        if data.startswith((_JKS_MAGIC, _JCEKS_MAGIC, b"\x30")):
            raise TlsError(f"{name} is not a PEM file; remove {type_name}=PEM for a JKS or PKCS12 store")
        raise TlsError(f"{name} is not a PEM file")
    return data.decode("latin-1")


def modification_times(settings: TlsSettings) -> tuple[int, ...]:
    """The times, in ns, at which the files of these settings were modified; 0 for a file that is not there."""
    times = []
    for path in (settings.keystore_location, settings.truststore_location):
        time_ns = 0
        if path is not None:
            with suppress(OSError, ValueError):
                time_ns = Path(path).stat().st_mtime_ns
        times.append(time_ns)
    return tuple(times)


def has_key_store(settings: TlsSettings) -> bool:
    """Whether a key store is set."""
    return settings.keystore_location is not None or settings.keystore_key is not None


def has_trust_store(settings: TlsSettings) -> bool:
    """Whether a trust store is set."""
    return settings.truststore_location is not None or settings.truststore_certificates is not None
