"""``--command-config FILE``: the properties of Kafka's clients in a file, for every command that talks to a cluster.

As in Kafka's tools. The file is read only where a command connects, and keys without a meaning here are ignored. A
login without ``sasl.jaas.config`` is that of the section ``KafkaClient`` in the login file that ``KAFKA_OPTS`` names.
"""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from kpybroker.client.bad_property import BadProperty

if TYPE_CHECKING:
    from kpybroker.client.client_configs import Value
    from kpybroker.config.properties import Property

OPTION = "--command-config"
SERVERS = "bootstrap.servers"
VERY_CLOSE = 0.9
"""How similar a key is that is reported: Kafka's clients have many others, which are ignored as they should be."""
_PATH = "kpybroker.command_config"
_IS_CHECKED = "kpybroker.command_config.is_checked"
_LOGINS = ("sasl.jaas.config", "sasl.username", "sasl.kerberos.principal", "sasl.kerberos.keytab")


def _remember(context: click.Context, _option: click.Parameter, path: str | None) -> None:
    if path is not None:
        context.meta[_PATH] = path


option = click.option(
    OPTION,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    envvar="KPYBROKER_COMMAND_CONFIG",
    expose_value=False,
    callback=_remember,
    help="Properties of Kafka's clients: security.protocol, sasl.jaas.config, ssl.truststore.location ...",
)


def path_of(context: click.Context) -> str | None:
    """The file that a command line names; None if it names none."""
    path: str | None = context.meta.get(_PATH)
    return path


def properties(context: click.Context) -> dict[str, str]:
    """The pairs of the file; none without one. click.BadParameter if it cannot be read."""
    path = path_of(context)
    if path is None:
        return {}
    from pathlib import Path

    from kpybroker.config.properties import doubts, read_properties
    from kpybroker.machines.config_def import ConfigError

    try:
        found = read_properties(Path(path))
    except ConfigError as error:
        raise click.BadParameter(str(error), param_hint=OPTION) from None
    if not context.meta.get(_IS_CHECKED):
        context.meta[_IS_CHECKED] = True
        for line in (*doubts(found, path), *_misspelt(found, path)):
            click.echo(f"kpybroker: {line}", err=True)
    return {key: each.value for key, each in found.items()}


def _misspelt(found: "Mapping[str, Property]", path: str) -> "Iterator[str]":
    """A line for each key that is nearly one of Kafka's: without effect, it may leave a connection without TLS."""
    from difflib import get_close_matches

    from kpybroker.client.client_configs import ELSEWHERE, PROPERTIES

    known = {SERVERS, *ELSEWHERE, *(name for each in PROPERTIES for name in (each.name, *each.also))}
    for key in found.keys() - known:
        close = get_close_matches(key, known, 1, VERY_CLOSE)
        if close:
            yield f"{path}:{found[key].line}: {key} is not known and has no effect; did you mean {close[0]}?"


def values(context: click.Context, command: str) -> "dict[str, Value]":
    """The properties of the file that have a meaning for a command of `client_configs`. click.BadParameter."""
    from kpybroker.client.client_configs import of_file

    try:
        return of_file(command, properties(context))
    except BadProperty as error:
        raise click.BadParameter(f"{path_of(context)}: {error}", param_hint=OPTION) from None


def with_file(command: str, configured: "Mapping[str, Value]") -> "dict[str, Value]":
    """The properties of ``-X``, and below them those of the file."""
    return {**values(click.get_current_context(), command), **configured}


def server_of(context: click.Context, server: str) -> str:
    """The servers to ask: those of the command line or the environment, else those of the file, else the default."""
    if context.get_parameter_source("server") is not click.core.ParameterSource.DEFAULT:
        return server
    return properties(context).get(SERVERS) or server


def with_login_file(values: "Mapping[str, Value | None]") -> "Mapping[str, Value | None]":
    """These properties with the login of the login file, if they ask for a login and name none. click.UsageError."""
    protocol = str(values.get("security.protocol") or "").upper()
    options = os.environ.get("KAFKA_OPTS", "")
    if not (protocol.startswith("SASL_") and options) or any(values.get(each) is not None for each in _LOGINS):
        return values
    from kpybroker.config.login_file import login_file_of
    from kpybroker.machines.sasl.jaas import MODULES, text_of
    from kpybroker.machines.sasl.jaas_file import CLIENT_SECTION

    file = login_file_of(options)
    if file.why_unusable:
        raise click.UsageError(file.why_unusable)
    entries = file.sections.get(CLIENT_SECTION, ())
    module = MODULES.get(str(values.get("sasl.mechanism") or "GSSAPI").upper())
    texts = [text_of(entry) for entry in entries if entry.module == module]
    return {**values, "sasl.jaas.config": texts[0]} if texts else values
