"""What commands that talk to a running broker share: the option that names it, and errors as one clear line."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from kpybroker.cli.client import Client
from kpybroker.cli.connection import Unreachable
from kpybroker.errors import KafkaError

DEFAULT_SERVER = "127.0.0.1:9092"

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


@contextmanager
def connected(server: str) -> Iterator[Client]:
    """A client of that cluster; what goes wrong with it becomes click's one line and exit code 1.

    A reader of our output who goes away (``| head``) and Ctrl-C end the command quietly.
    """
    try:
        client = Client(server)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    try:
        with client:
            yield client
    except (KafkaError, Unreachable) as error:
        raise click.ClickException(said(error)) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def said(error: KafkaError | Unreachable) -> str:
    """``the topic exists already (TOPIC_ALREADY_EXISTS)``."""
    if isinstance(error, Unreachable):
        return str(error)
    name, _, text = str(error).partition(": ")
    return f"{text.rstrip('.')} ({name})"


def columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of aligned columns, never cut off; numbers are set to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [bool(rows) and all(isinstance(row[index], int) for row in rows) for index in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in [headings, *cells])
