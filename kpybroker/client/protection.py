"""The protection of a client's connections, ready for use: the TLS context is made once, when a connection needs it."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kpybroker.client.bad_property import BadProperty
from kpybroker.client.security import CA_KEY, CERTIFICATE_KEY, KEY_KEY, ClientSecurity

if TYPE_CHECKING:
    import ssl

ALGORITHM_KEY = "ssl.endpoint.identification.algorithm"


class ConnectionProtection:
    """A `ClientSecurity` with its TLS context."""

    def __init__(self, security: ClientSecurity, context: "ssl.SSLContext | None" = None) -> None:
        """``context``: the TLS context, if there is one already."""
        if context is not None:
            self.context = context
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
        """The TLS context. Reads the stores. Raises BadProperty if one cannot be used."""
        from kpybroker.security.tls.contexts import client_context
        from kpybroker.security.tls.settings import TlsError, read_settings

        assert self.security.tls is not None
        try:
            return client_context(read_settings(with_kafkas_names(self.security.tls).get))
        except TlsError as error:
            raise BadProperty(str(error)) from None


def with_kafkas_names(tls: Mapping[str, str]) -> dict[str, str]:
    """Properties ``ssl.*`` with librdkafka's replaced by those of Kafka. Reads files; raises BadProperty."""
    found = dict(tls)
    if found.get(ALGORITHM_KEY, "").lower() == "none":
        found[ALGORITHM_KEY] = ""
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
        raise BadProperty(f"{key}: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadProperty(f"{key}: {path} is not a PEM file") from None
