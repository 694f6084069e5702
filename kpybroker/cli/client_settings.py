"""The settings of a command's client, from the properties in `client_configs`: of ``-X`` or ``--command-config``."""

import click

from kpybroker.cli import command_config
from kpybroker.client import client_configs, properties
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import ClientSettings
from kpybroker.client.properties import Values, number, seconds

__all__ = ["Values", "admin_settings", "number", "seconds", "settings_of"]


def settings_of(values: Values) -> ClientSettings:
    """The settings of the client. click.UsageError."""
    try:
        return properties.settings_of(command_config.with_login_file(values))
    except BadProperty as error:
        raise click.UsageError(str(error)) from None


def admin_settings(context: click.Context) -> tuple[float, ClientSettings]:
    """The time-out and the settings of a command without ``-X``, from ``--command-config``."""
    configured = command_config.values(context, client_configs.ADMIN)
    values = client_configs.with_defaults(client_configs.ADMIN, configured)
    return seconds(values, "request.timeout.ms"), settings_of(values)
