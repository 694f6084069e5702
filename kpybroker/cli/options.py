"""What commands that talk to a running broker share: the option that names it, errors as one clear line, exit codes.

Exit codes: 0 fine, 1 the cluster refused, 2 wrong usage, 3 no broker could be reached, 4 what was looked at is not in
order, 130 Ctrl-C.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from kpybroker.cli import DEFAULT_SERVER
from kpybroker.cli.client import Client
from kpybroker.cli.connection import Unreachable
from kpybroker.cli.tables import printable
from kpybroker.errors import KafkaError

REFUSED = 1
UNREACHABLE = 3
NOT_IN_ORDER = 4
INTERRUPTED = 130

Command = Callable[..., Any]


def bootstrap_server(command: Command) -> Command:
    """``--bootstrap-server``, as Kafka's tools call it."""
    return click.option(
        "-b",
        "--bootstrap-server",
        "server",
        metavar="HOST:PORT",
        default=DEFAULT_SERVER,
        envvar="KPYBROKER_BOOTSTRAP_SERVER",
        show_default=True,
        help="A broker of the cluster; several are separated by commas.",
    )(command)


def json_output(command: Command) -> Command:
    """``--json``: for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


class NotReached(click.ClickException):
    """No broker answers: one line, and an exit code of its own, so that scripts can wait for one."""

    exit_code = UNREACHABLE


@contextmanager
def connected(server: str) -> Iterator[Client]:
    """A client of that cluster; what goes wrong with it becomes click's one line and exit code 1 or 3."""
    try:
        client = Client(server)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    try:
        with quiet_end(), client:
            yield client
    except KafkaError as error:
        raise click.ClickException(said(error)) from None
    except Unreachable as error:
        raise NotReached(str(error)) from None


@contextmanager
def quiet_end() -> Iterator[None]:
    """A reader of our output who goes away (``| head``) and Ctrl-C end the command without a word."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # from now on there may be something to finish
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def said(error: KafkaError) -> str:
    """``the topic exists already (TOPIC_ALREADY_EXISTS)``."""
    name, _, text = str(error).partition(": ")
    return printable(f"{text.rstrip('.')} ({name})")


def wanted_groups(client: Client, names: Iterable[str], every: bool) -> list[str]:
    """The groups that were named, each once, or all there are. click.UsageError if neither was said, or both."""
    named = list(dict.fromkeys(names))
    if bool(named) == every:
        raise click.UsageError("name groups" + (", or say --all-groups, not both" if every else ""))
    if not every:
        return named
    from kpybroker.cli.group_requests import CLASSIC, CONSUMER, list_groups

    return [group.group_id for group in list_groups(client) if group.group_type.lower() in ("", CLASSIC, CONSUMER)]
