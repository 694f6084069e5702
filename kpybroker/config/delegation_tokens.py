"""The secret of delegation tokens in a configuration."""

from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.config_def import Password

if TYPE_CHECKING:
    from kpybroker.machines.sasl.delegation_token import TokenSecret


def token_secret(config: BrokerConfig) -> "TokenSecret | None":
    """``delegation.token.secret.key``; None if there is none, so that there are no tokens."""
    key = config["delegation.token.secret.key"]
    if not isinstance(key, Password) or not key.value:
        return None
    from kpybroker.machines.sasl.delegation_token import TokenSecret  # not of a plain start

    return TokenSecret(key.value)
