"""``-X``: the option of ``produce`` and ``consume`` for the properties in `client_configs`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from kpybroker.cli.completion import items
from kpybroker.cli.options import Command
from kpybroker.cli.tables import columns
from kpybroker.client import client_configs
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client_configs import ClientProperty, Value

LIST = "list"


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
        "configured",
        multiple=True,
        is_eager=True,
        metavar="KEY=VALUE",
        callback=parsed,
        shell_complete=complete,
        help="A property of Kafka's clients, such as client.id=me; -X list shows them. Repeatable.",
    )


def agree(configured: Mapping[str, Value], name: str, option: str, value: Any) -> Any:
    """The value that an option and a property give together; click.UsageError if they differ."""
    if name not in configured:
        return value
    if value is not None and value != configured[name]:
        raise click.UsageError(f"{option} and -X {name} have different values")
    return configured[name]


def as_text(found: Iterable[ClientProperty]) -> str:
    """The properties for people."""
    rows = [(each.name, client_configs.shown(each), each.type.text, each.about) for each in found]
    return columns(("PROPERTY", "DEFAULT", "TYPE", "MEANING"), rows)
