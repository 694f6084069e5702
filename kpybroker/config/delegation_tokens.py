"""The secret of delegation tokens in a configuration."""

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.definition import Password
from kpybroker.sasl.delegation_token import TokenSecret


def token_secret(config: BrokerConfig) -> TokenSecret | None:
    """``delegation.token.secret.key``; None if there is none, so that there are no tokens."""
    key = config["delegation.token.secret.key"]
    return TokenSecret(key.value) if isinstance(key, Password) and key.value else None
