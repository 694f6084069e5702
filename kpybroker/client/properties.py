"""The settings of a client, from the properties in `client_configs`: of a command line, a file or a Spark query."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kpybroker.client import client_configs
from kpybroker.client.client import ClientSettings
from kpybroker.client.client_configs import Value

if TYPE_CHECKING:
    from kpybroker.client.protection import ConnectionProtection

Values = Mapping[str, Value | None]


def number(values: Values, name: str) -> int:
    """A property that is a whole number."""
    value = values[name]
    assert isinstance(value, int)
    return value


def seconds(values: Values, name: str) -> float:
    """A property in milliseconds."""
    return number(values, name) / 1000


def settings_of(values: Values) -> ClientSettings:
    """The settings of the client. Raises BadProperty."""
    return ClientSettings(
        client_id=str(values["client.id"]),
        connect_timeout_s=seconds(values, "socket.connection.setup.timeout.ms"),
        api_timeout_s=seconds(values, "default.api.timeout.ms") if "default.api.timeout.ms" in values else 30.0,
        backoff_s=seconds(values, "retry.backoff.ms"),
        backoff_max_s=seconds(values, "retry.backoff.max.ms"),
        metadata_age_s=seconds(values, "metadata.max.age.ms"),
        protection=_protection(values),
    )


def _protection(values: Values) -> "ConnectionProtection | None":
    """TLS and the login; None for neither. Raises BadProperty."""
    configured = {name: value for name, value in values.items() if name.startswith(client_configs.SECURITY_PREFIXES)}
    if all(value is None for value in configured.values()):
        return None
    from kpybroker.client.protection import ConnectionProtection
    from kpybroker.client.security import security_of

    return ConnectionProtection(security_of(configured))
