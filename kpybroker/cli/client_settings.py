"""The settings of a command's client, from the properties in `client_configs`: of ``-X`` or ``--command-config``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from kpybroker.cli import command_config
from kpybroker.client import client_configs
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import Settings
from kpybroker.client.client_configs import Value

if TYPE_CHECKING:
    from kpybroker.client.protection import Protection

Values = Mapping[str, Value | None]


def number(values: Values, name: str) -> int:
    """A property that is a whole number."""
    value = values[name]
    assert isinstance(value, int)
    return value


def seconds(values: Values, name: str) -> float:
    """A property in milliseconds."""
    return number(values, name) / 1000


def settings_of(values: Values) -> Settings:
    """The settings of the client."""
    return Settings(
        client_id=str(values["client.id"]),
        connect_timeout_s=seconds(values, "socket.connection.setup.timeout.ms"),
        api_timeout_s=seconds(values, "default.api.timeout.ms") if "default.api.timeout.ms" in values else 30.0,
        backoff_s=seconds(values, "retry.backoff.ms"),
        backoff_max_s=seconds(values, "retry.backoff.max.ms"),
        metadata_age_s=seconds(values, "metadata.max.age.ms"),
        protection=_protection(values),
    )


def _protection(values: Values) -> "Protection | None":
    """TLS and the login; None for neither. click.UsageError."""
    said = {name: value for name, value in values.items() if name.startswith(client_configs.SECURITY_PREFIXES)}
    if all(value is None for value in said.values()):
        return None
    from kpybroker.client.protection import Protection
    from kpybroker.client.security import security_of

    try:
        return Protection(security_of(said))
    except BadProperty as error:
        raise click.UsageError(str(error)) from None


def admin_settings(context: click.Context) -> tuple[float, Settings]:
    """The time-out and the settings of a command without ``-X``, from ``--command-config``."""
    said = command_config.values(context, client_configs.ADMIN)
    values = client_configs.with_defaults(client_configs.ADMIN, said)
    return seconds(values, "request.timeout.ms"), settings_of(values)
