"""DefaultPrincipalData."""

from __future__ import annotations

from kpywire.schema import message, string


@message(versions="0", flexible="0+")
class DefaultPrincipalData:
    """The encoding format for default Kafka principal in
    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder.
    """

    type: string  # The principal type.
    name: string  # The principal name.
    token_authenticated: bool  # Whether the principal was authenticated by a delegation token on the forwarding broker.
