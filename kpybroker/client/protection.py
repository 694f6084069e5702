"""The protection of a client's connections, ready for use: the TLS context is made once, when a connection needs it."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kpybroker.client.security import CA_KEY, CERTIFICATE_KEY, KEY_KEY, BadSecurity, Security

if TYPE_CHECKING:
    import ssl


class Protection:
    """A `Security` with its TLS context."""

    def __init__(self, security: Security) -> None:
        self.security = security
        self.login = security.login
        self.protocol = security.protocol

    @property
    def has_tls(self) -> bool:
        return self.security.tls is not None

    @property
    def has_certificate(self) -> bool:
        """Whether this client shows a certificate of its own."""
        tls = self.security.tls or {}
        return any(key.startswith(("ssl.keystore.", CERTIFICATE_KEY)) for key in tls)

    @cached_property
    def context(self) -> "ssl.SSLContext":
        """The TLS context. Reads the stores. Raises BadSecurity if one cannot be used."""
        from kpybroker.tls.contexts import client_context
        from kpybroker.tls.settings import BadStore, TlsSettings

        assert self.security.tls is not None
        try:
            return client_context(TlsSettings.of(with_kafkas_names(self.security.tls)))
        except (BadStore, OSError) as error:
            raise BadSecurity(str(error)) from None


def with_kafkas_names(tls: dict[str, str]) -> dict[str, str]:
    """Properties ``ssl.*`` with librdkafka's replaced by those of Kafka. Reads files; raises BadSecurity."""
    found = dict(tls)
    if CA_KEY in found:
        found["ssl.truststore.type"] = "PEM"
        found["ssl.truststore.location"] = found.pop(CA_KEY)
    if CERTIFICATE_KEY in found:
        found["ssl.keystore.type"] = "PEM"
        found["ssl.keystore.certificate.chain"] = _content(CERTIFICATE_KEY, found.pop(CERTIFICATE_KEY))
        found["ssl.keystore.key"] = _content(KEY_KEY, found.pop(KEY_KEY))
    return found


def _content(key: str, path: str) -> str:
    try:
        return Path(path).read_text("ascii")
    except OSError as error:
        raise BadSecurity(f"{key}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadSecurity(f"{key}: {path} is not a PEM file") from None
