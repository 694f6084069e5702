"""``-X``: the option of ``produce`` and ``consume`` for the properties in `client_configs`."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kpybroker.cli import command_config
from kpybroker.cli.completion import items
from kpybroker.cli.options import Command
from kpybroker.cli.tables import columns
from kpybroker.client import client_configs
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import Settings
from kpybroker.client.client_configs import Property, Value

if TYPE_CHECKING:
    from kpybroker.client.protection import Protection

LIST = "list"

Values = Mapping[str, Value | None]


def properties(command_name: str) -> Callable[[Command], Command]:
    """``-X KEY=VALUE``, repeatable, as a mapping of the given properties; ``-X list`` shows all of them."""

    def parsed(context: click.Context, _option: click.Parameter, pairs: Iterable[str]) -> dict[str, Value]:
        given = tuple(pairs)
        if LIST in given:
            click.echo(as_text(client_configs.of_command(command_name).values()))
            context.exit()
        try:
            return client_configs.parse(command_name, given)
        except BadProperty as error:
            raise click.BadParameter(str(error)) from None

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        return items((f"{name}=" for name in client_configs.of_command(command_name)), begun)

    return click.option(
        "-X",
        "--property",
        "said",
        multiple=True,
        is_eager=True,
        metavar="KEY=VALUE",
        callback=parsed,
        shell_complete=complete,
        help="A property of Kafka's clients, such as client.id=me; -X list shows them. Repeatable.",
    )


def agree(said: Mapping[str, Value], name: str, option: str, value: Any) -> Any:
    """The value that an option and a property give together; click.UsageError if they differ."""
    if name not in said:
        return value
    if value is not None and value != said[name]:
        raise click.UsageError(f"{option} and -X {name} have different values")
    return said[name]


def as_text(found: Iterable[Property]) -> str:
    """The properties for people."""
    rows = [(each.name, client_configs.shown(each), each.type.text, each.about) for each in found]
    return columns(("PROPERTY", "DEFAULT", "TYPE", "MEANING"), rows)


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
