"""The common parts of commands that talk to a running broker: the option that names it, errors as one line, exit codes.

Exit codes: 0 fine, 1 the cluster refused, 2 wrong usage, 3 no broker could be reached, 4 what was checked is not in
order, 130 Ctrl-C.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpybroker.cli import DEFAULT_SERVER, command_config, completion
from kpybroker.cli.tables import printable
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import TIMEOUT_S, Client, ClientSettings, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.cli.contact import Contact

REFUSED = 1
UNREACHABLE = 3
NOT_IN_ORDER = 4
INTERRUPTED = 130
HINT_PATIENCE_S = 2.0

Command = Callable[..., Any]


def bootstrap_server(command: Command) -> Command:
    """``--bootstrap-server`` and ``--command-config``, as Kafka's tools call them."""
    server = click.option(
        "-b",
        "--bootstrap-server",
        "server",
        metavar="HOST:PORT",
        default=DEFAULT_SERVER,
        envvar="KPYBROKER_BOOTSTRAP_SERVER",
        show_default=True,
        help="A broker of the cluster; several are separated by commas.",
    )
    return server(command_config.option(command))


def json_output(command: Command) -> Command:
    """``--json``: for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def remote_store(help_text: str) -> Callable[[Command], Command]:
    """``--remote-store``: the store of a tiered cluster, by the file of a broker; the command gets ``store``, a path or
    None."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--remote-store", "store", type=path, metavar="CONFIG", help=help_text)


def named_groups(command: Command) -> Command:
    """Groups, as arguments and as Kafka's ``--group``: `wanted_groups` takes both."""
    option = click.option(
        "--group",
        "more",
        multiple=True,
        metavar="GROUP",
        shell_complete=completion.groups,
        help="A group, like the argument. Repeatable.",
    )
    return click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=completion.groups)(option(command))


class NotReached(click.ClickException):
    """No broker answers. It has one line and an exit code of its own, so that scripts can wait for a broker."""

    exit_code = UNREACHABLE


@contextmanager
def connected(
    server: str, timeout_s: float = TIMEOUT_S, settings: ClientSettings | None = None, contact: "Contact | None" = None
) -> Iterator[Client]:
    """A client of the cluster. Its errors become click's one line and exit code 1 or 3.

    Without ``settings`` it has those of ``--command-config``.
    """
    context = click.get_current_context(silent=True)
    if context is not None and command_config.path_of(context) is not None:
        server = command_config.server_of(context, server)
        if settings is None:
            from kpybroker.cli.client_settings import admin_settings

            timeout_s, settings = admin_settings(context)
    try:
        client = Client(server, timeout_s, settings, contact)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    try:
        with quiet_end(), client:
            yield client
    except KafkaError as error:
        raise click.ClickException(error_text(error, _hint(client, error))) from None
    except Unreachable as error:
        raise NotReached(str(error)) from None
    except BadProperty as error:
        raise click.UsageError(str(error)) from None


@contextmanager
def quiet_end() -> Iterator[None]:
    """End the command without a message on Ctrl-C, or when the reader of its output goes away (``| head``)."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # from now on there may be something to finish
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def error_text(error: KafkaError, hint: str = "") -> str:
    """An error in words, such as ``the topic exists already (TOPIC_ALREADY_EXISTS)``."""
    name, _, text = str(error).partition(": ")
    return printable(f"{text.rstrip('.')}{hint} ({name})")


_MISSING = re.compile(r"(topic|group|transactional id) (\S+) does not exist$")
_MISSING_CODES = frozenset(
    (
        error_codes.UNKNOWN_TOPIC_OR_PARTITION,
        error_codes.GROUP_ID_NOT_FOUND,
        error_codes.TRANSACTIONAL_ID_NOT_FOUND,
    )
)
_UNKNOWN_CONFIG = re.compile(r"Unknown (topic|group)? ?config name: (\S+)")
_PARTITION = re.compile(r"partition (\S+)-(\d+)")


def _hint(client: Client, error: KafkaError) -> str:
    """The remedy of an error, if a user cannot know it; nothing if the cluster does not report it."""
    client.hurry(HINT_PATIENCE_S)
    try:
        with client:
            if error.code == error_codes.CORRUPT_MESSAGE:
                return _where_to_check(client, error)
            if error.code in _MISSING_CODES:
                return _nearby(client, error)
            if error.code in (error_codes.INVALID_CONFIG, error_codes.INVALID_REQUEST):
                return _config_nearby(error)
    except (KafkaError, Unreachable):
        pass
    return ""


def _where_to_check(client: Client, error: KafkaError) -> str:
    from kpybroker.client.cluster_requests import directory_of

    found = _PARTITION.search(str(error))
    place = None if found is None else directory_of(client, Spot(found[1], int(found[2])))
    if place is None:
        return "; on the broker's machine, kpybroker check DIR with its log directory says what is damaged"
    return f"; on the machine of broker {place[0]}, kpybroker check {place[1]} says what is damaged"


def _nearby(client: Client, error: KafkaError) -> str:
    """The question whether something with a similar name was meant, if the given topic, group or transactional id does
    not exist."""
    found = _MISSING.search(str(error))
    if found is None:
        return ""
    from kpybroker.machines.names_nearby import nearby

    if found[1] == "topic":
        return nearby(client.topic_names(), found[2])
    if found[1] == "group":
        from kpybroker.client.group_listing import list_groups

        return nearby((each.group_id for each in list_groups(client)), found[2])
    from kpybroker.client.transaction_requests import transactions

    return nearby((each.transactional_id for each in transactions(client)), found[2])


def _config_nearby(error: KafkaError) -> str:
    """The question whether a config with a similar name was meant."""
    found = _UNKNOWN_CONFIG.search(str(error))
    if found is None:
        return ""
    from kpybroker.config.broker_configs import BROKER_CONFIGS
    from kpybroker.config.group_configs import GROUP_CONFIGS
    from kpybroker.config.topic_configs import TOPIC_CONFIGS
    from kpybroker.machines.names_nearby import nearby

    tables: dict[str | None, Iterable[str]] = {"topic": TOPIC_CONFIGS, "group": GROUP_CONFIGS}
    return nearby(tables.get(found[1], BROKER_CONFIGS), found[2].rstrip("."))


def wanted_groups(client: Client, names: Iterable[str], *, every: bool) -> list[str]:
    """The groups that were named, each once, or all groups. click.UsageError if neither was given, or both."""
    named = list(dict.fromkeys(names))
    if bool(named) == every:
        raise click.UsageError("name groups" + (", or use --all-groups, not both" if every else ""))
    if not every:
        return named
    from kpybroker.client.group_listing import CLASSIC, CONSUMER, list_groups

    return [group.group_id for group in list_groups(client) if group.group_type.lower() in ("", CLASSIC, CONSUMER)]
