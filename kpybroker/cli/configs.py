"""``kpybroker configs``: describe and change configs of topics, brokers, groups, loggers and client metrics."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.options import Command, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, show_json
from kpybroker.client import config_requests
from kpybroker.client.config_requests import (
    DEFAULT_SOURCE,
    SOURCES,
    TYPES,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.names_nearby import nearby
from kpywire import error_codes
from kpywire.messages.describe_configs import DescribeConfigsResourceResult

ENTITY_TYPES = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
    "groups": ConfigResourceType.GROUP,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
}
SENSITIVE = "(hidden)"


@click.group(name="configs", cls=Commands)
def command() -> None:
    """Describe and change configs of topics, brokers, groups, broker loggers and client metrics."""


def resource_options(command: Command) -> Command:
    """The options that name one resource, as kafka-configs has them."""
    options = [
        click.option("-t", "--topic", metavar="TOPIC", shell_complete=completion.topics, help="A topic."),
        click.option("--broker", metavar="ID", help="A broker."),
        click.option("--broker-defaults", is_flag=True, help="The default of all brokers."),
        click.option("--broker-logger", metavar="ID", help="The log levels of a broker."),
        click.option("--group", metavar="GROUP", shell_complete=completion.groups, help="A group."),
        click.option("--client-metrics", metavar="NAME", help="A subscription to clients' metrics (KIP-714)."),
        click.option("--entity-type", type=click.Choice(list(ENTITY_TYPES)), help="The same as in kafka-configs."),
        click.option("--entity-name", metavar="NAME", help="The name that belongs to --entity-type."),
        click.option("--entity-default", is_flag=True, help="With --entity-type brokers: the default of all brokers."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def resource_of(named: Mapping[str, Any]) -> ConfigResource:
    """The one resource that the options name. click.UsageError if they name none or several."""
    found = [
        ConfigResource(kind, named[option])
        for option, kind in (
            ("topic", ConfigResourceType.TOPIC),
            ("broker", ConfigResourceType.BROKER),
            ("broker_logger", ConfigResourceType.BROKER_LOGGER),
            ("group", ConfigResourceType.GROUP),
            ("client_metrics", ConfigResourceType.CLIENT_METRICS),
        )
        if named[option] is not None
    ]
    if named["broker_defaults"]:
        found.append(ConfigResource(ConfigResourceType.BROKER, ""))
    entity_type, entity_name = named["entity_type"], named["entity_name"]
    if entity_type is not None and (entity_name is not None or named["entity_default"]):
        found.append(ConfigResource(ENTITY_TYPES[entity_type], entity_name or ""))
    if len(found) != 1:
        raise click.UsageError("name one of --topic, --broker, --broker-defaults, --broker-logger, --group ...")
    (resource,) = found
    if not resource.name and resource.kind is not ConfigResourceType.BROKER:
        raise click.UsageError("the name is empty")
    return resource


@command.command()
@click.argument("names", metavar="[KEY]...", nargs=-1, shell_complete=completion.config_names)
@resource_options
@click.option("--all", "every", is_flag=True, help="Also show configs that have their defaults.")
@click.option("--synonyms", is_flag=True, help="Also show each place where a value is set, in their order.")
@click.option("--docs", is_flag=True, help="Also show the documentation of each config.")
@json_output
@bootstrap_server
def describe(
    names: tuple[str, ...], every: bool, synonyms: bool, docs: bool, as_json: bool, server: str, **named: Any
) -> None:
    """Show configs with their sources: what is not at its default, or the KEYs that are named, or --all."""
    resource = resource_of(named)
    with connected(server) as client:
        found = config_requests.describe(client, resource, names, synonyms=synonyms or as_json, documentation=docs)
        unknown = set(names).difference(str(each.name) for each in found)
        if unknown:
            known = (str(each.name) for each in config_requests.describe(client, resource))
            text = f"{resource} has no config {min(unknown)}{nearby(known, min(unknown))}"
            raise KafkaError(error_codes.INVALID_CONFIG, text)
    if not (every or names):
        found = [each for each in found if each.config_source != DEFAULT_SOURCE]
    if as_json:
        show_json([as_dict(each, docs=docs) for each in found])
    elif found:
        click.echo(as_text(found, synonyms=synonyms, docs=docs))
    else:
        click.echo(f"{resource}: everything has its default; --all shows it.", err=True)


def as_dict(config: DescribeConfigsResourceResult, *, docs: bool) -> dict[str, Any]:
    """A config as a dictionary, for programs."""
    found = {
        "name": config.name,
        "value": config.value,
        "source": SOURCES.get(config.config_source, "unknown"),
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "type": TYPES[config.config_type] if 0 <= config.config_type < len(TYPES) else "unknown",
        "synonyms": [
            {"name": each.name, "value": each.value, "source": SOURCES.get(each.source, "unknown")}
            for each in config.synonyms
        ],
    }
    return {**found, "documentation": config.documentation} if docs else found


def as_text(configs: Iterable[DescribeConfigsResourceResult], *, synonyms: bool, docs: bool) -> str:
    """Configs for people: a table, or with documentation a paragraph for each."""
    rows = [(each.name, _shown(each.value, sensitive=each.is_sensitive), _source(each)) for each in configs]
    if not (synonyms or docs):
        return columns(("CONFIG", "VALUE", "SOURCE"), rows)
    paragraphs = []
    for config, (name, value, source) in zip(configs, rows, strict=True):
        lines = [f"{name}={value}  ({source})"]
        if synonyms:
            for each in config.synonyms:
                shown = _shown(each.value, sensitive=config.is_sensitive)
                lines.append(f"    {each.name}={shown}  ({SOURCES.get(each.source, 'unknown')})")
        if docs and config.documentation:
            lines += click.wrap_text(config.documentation, 100, "    ", "    ").splitlines()
        paragraphs.append("\n".join(lines))
    return "\n".join(paragraphs)


def _shown(value: str | None, *, sensitive: bool) -> str:
    return SENSITIVE if sensitive else ("null" if value is None else value)


def _source(config: DescribeConfigsResourceResult) -> str:
    source = SOURCES.get(config.config_source, "unknown")
    return f"{source}, read-only" if config.read_only else source


def pairs_of(_context: click.Context, _option: click.Parameter, pairs: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of ``("retention.ms=1000",)``; click.BadParameter for a text that is not a pair."""
    found = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
        found.append((key.strip(), value.strip()))
    return tuple(found)


def kafka_pairs_of(
    context: click.Context, option: click.Parameter, texts: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """``--add-config a=1,b=[x,y]`` as kafka-configs takes it: commas separate, brackets hold a value with commas."""
    return tuple(pair for text in texts for pair in pairs_of(context, option, split_outside_brackets(text)))


def split_outside_brackets(text: str) -> list[str]:
    """``a=1,b=[x,y]`` as ``a=1`` and ``b=x,y``."""
    parts, depth, part = [], 0, ""
    for character in text:
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        elif character == "[" and depth == 0 and part.endswith("="):
            depth = 1
        elif character == "]" and depth == 1:
            depth = 0
        else:
            part += character
    return [each for each in (*parts, part) if each]


def _setting(*names: str, operation: str, callback: Callable[..., Any], text: str) -> Callable[[Command], Command]:
    return click.option(
        *names,
        operation,
        multiple=True,
        metavar="KEY=VALUE",
        callback=callback,
        shell_complete=completion.config_names,
        help=f"{text} Repeatable.",
    )


@command.command(context_settings={"allow_extra_args": True})
@resource_options
@_setting("-c", "--set", operation="sets", callback=pairs_of, text="Set a config.")
@_setting("--append", operation="appends", callback=pairs_of, text="Add to a list.")
@_setting("--subtract", operation="subtracts", callback=pairs_of, text="Take out of a list.")
@_setting("--add-config", operation="adds", callback=kafka_pairs_of, text="As in kafka-configs: a=1,b=[x,y].")
@click.option(
    "--delete",
    "--delete-config",
    "deletes",
    multiple=True,
    metavar="KEY",
    help="Remove this key, so that the default counts.",
)
@click.option("--dry-run", is_flag=True, help="Ask the cluster whether it accepts the change; change nothing.")
@bootstrap_server
@click.pass_context
def alter(
    context: click.Context,
    /,
    sets: tuple[tuple[str, str], ...],
    appends: tuple[tuple[str, str], ...],
    subtracts: tuple[tuple[str, str], ...],
    adds: tuple[tuple[str, str], ...],
    deletes: tuple[str, ...],
    dry_run: bool,
    server: str,
    **named: Any,
) -> None:
    """Change configs, all of them or none."""
    if context.args:
        pair = context.args[0]
        raise click.UsageError(f"unexpected {pair!r}" + (f"; use --set {pair}" if "=" in pair else ""))
    changes = [ConfigChange(ConfigOperation.SET, *pair) for pair in (*sets, *adds)]
    changes += [ConfigChange(ConfigOperation.APPEND, *pair) for pair in appends]
    changes += [ConfigChange(ConfigOperation.SUBTRACT, *pair) for pair in subtracts]
    changes += [ConfigChange(ConfigOperation.DELETE, key.strip(), None) for text in deletes for key in text.split(",")]
    if not changes:
        raise click.UsageError("nothing to alter: use --set KEY=VALUE, --append, --subtract or --delete KEY")
    _change(resource_of(named), changes, dry_run=dry_run, server=server)


@command.command()
@click.argument("names", metavar="KEY...", nargs=-1, required=True, shell_complete=completion.config_names)
@resource_options
@click.option("--dry-run", is_flag=True, help="Ask the cluster whether it accepts the change; change nothing.")
@bootstrap_server
def delete(names: tuple[str, ...], dry_run: bool, server: str, **named: Any) -> None:
    """Let configs fall back to their defaults."""
    changes = [ConfigChange(ConfigOperation.DELETE, name, None) for name in names]
    _change(resource_of(named), changes, dry_run=dry_run, server=server)


def _change(resource: ConfigResource, changes: list[ConfigChange], *, dry_run: bool, server: str) -> None:
    with connected(server) as client:
        config_requests.alter(client, resource, changes, validate_only=dry_run)
    click.echo(f"{'Would alter' if dry_run else 'Altered'} {resource}")


@command.command("list")
@click.argument("kind", metavar="TYPE", type=click.Choice(list(ENTITY_TYPES)))
@json_output
@bootstrap_server
def list_(kind: str, as_json: bool, server: str) -> None:
    """List the topics, brokers, groups... that may have configs (Kafka 4.1 and newer)."""
    with connected(server) as client:
        names = config_requests.resources(client, ENTITY_TYPES[kind])
    if as_json:
        show_json(names)
    elif names:
        click.echo("\n".join(names))
