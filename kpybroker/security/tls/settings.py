"""Kafka's ``ssl.*`` configs of one listener or of one client, as values. No file is read here.

Invariant: no secret is in the ``repr`` of the settings, nor in any error of this package.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

JKS: Final = "JKS"
PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
NO_CLIENT_AUTH: Final = "none"
CLIENT_AUTH_REQUESTED: Final = "requested"
CLIENT_AUTH_REQUIRED: Final = "required"
DEFAULT_PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
_SECRETS: Final = frozenset(
    {"keystore_password", "key_password", "keystore_key", "truststore_password", "keystore_certificate_chain"}
)


class TlsError(Exception):
    """The settings, or the files that they name, cannot be used. The message is one line."""


class TlsSettings(NamedTuple):
    """The ``ssl.*`` configs under their names without ``ssl.``, with underscores. None means that one is not set."""

    keystore_type: str = JKS
    keystore_location: str | None = None
    keystore_password: str | None = None
    key_password: str | None = None
    keystore_key: str | None = None
    """A private key as PEM (KIP-651)."""
    keystore_certificate_chain: str | None = None
    truststore_type: str = JKS
    truststore_location: str | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None
    enabled_protocols: tuple[str, ...] = DEFAULT_PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = NO_CLIENT_AUTH
    """Only servers use it."""
    endpoint_identification_algorithm: str = "https"
    """Only clients use it: ``https`` checks the name of the server, an empty text does not."""

    def __repr__(self) -> str:
        shown = [
            f"{name}={'[hidden]' if name in _SECRETS else repr(value)}"
            for name, value in zip(self._fields, self, strict=True)
            if value is not None and value != self._field_defaults[name]
        ]
        return f"TlsSettings({', '.join(shown)})"


def read_settings(value_of: Callable[[str], object]) -> TlsSettings:
    """The settings out of a configuration. ``value_of`` returns the value of a config by Kafka's name, None if it has
    none.

    A value is a text, a tuple of texts, or a secret with the text in its attribute ``value``.
    """

    def text(name: str) -> str | None:
        value = value_of(name)
        value = getattr(value, "value", value)
        return None if value is None else str(value)

    def words(name: str, otherwise: tuple[str, ...]) -> tuple[str, ...]:
        value = value_of(name)
        if value is None:
            return otherwise
        parts = value.split(",") if isinstance(value, str) else value
        assert isinstance(parts, (list, tuple))
        return tuple(str(part).strip() for part in parts if str(part).strip())

    algorithm = text("ssl.endpoint.identification.algorithm")
    return TlsSettings(
        keystore_type=text("ssl.keystore.type") or JKS,
        keystore_location=text("ssl.keystore.location"),
        keystore_password=text("ssl.keystore.password"),
        key_password=text("ssl.key.password"),
        keystore_key=text("ssl.keystore.key"),
        keystore_certificate_chain=text("ssl.keystore.certificate.chain"),
        truststore_type=text("ssl.truststore.type") or JKS,
        truststore_location=text("ssl.truststore.location"),
        truststore_password=text("ssl.truststore.password"),
        truststore_certificates=text("ssl.truststore.certificates"),
        enabled_protocols=words("ssl.enabled.protocols", DEFAULT_PROTOCOLS) or DEFAULT_PROTOCOLS,
        cipher_suites=words("ssl.cipher.suites", ()),
        client_auth=text("ssl.client.auth") or NO_CLIENT_AUTH,
        endpoint_identification_algorithm="https" if algorithm is None else algorithm.strip(),
    )
