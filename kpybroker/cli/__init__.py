"""The command line. A subcommand is imported when it is used, so that no command pays for the others.

``kpybroker start`` and ``format`` run a node; the others are clients of any Kafka broker.
"""

import errno
import gc
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from typing import Any

import click

from kpybroker import __version__

COMMANDS = {
    "acls": "List, add and remove ACLs, and explain which of them decides.",
    "audit": "Say whether all data is there, whole, in order and the same on every replica.",
    "backup": "Back a cluster up, byte for byte, and restore it as of an earlier time.",
    "balance": "Plan moves of replicas and leaders for any cluster, and carry them out.",
    "bug-report": "Write what a maintainer needs into one file, without secrets.",
    "check": "Say what is wrong with the files of log directories, and mend them.",
    "cluster": "Show brokers, features, log directories and the quorum; elect, unregister.",
    "configs": "Show and change configs of topics, brokers, groups and loggers.",
    "consume": "Read records of topics, alone or as a member of a group.",
    "demo": "Play a year of flights through kafka-python, a broker and Spark.",
    "doctor": "Say what is wrong with a cluster, and how to mend it.",
    "dump-log": "Print what is in Kafka's files.",
    "format": "Prepare log directories for a node.",
    "groups": "List, describe and delete consumer groups, reset their offsets.",
    "lake": "Keep topics as Delta or Iceberg tables, and check that table = topic.",
    "metadata": "Look around in a metadata log or snapshot.",
    "migrate": "Follow the migration of a cluster from ZooKeeper to KRaft.",
    "mirror": "Mirror topics of another cluster with equal offsets, and fail over.",
    "offsets": "Show offsets of partitions and groups, delete old records.",
    "produce": "Write lines as records to a topic.",
    "producers": "Show the producers that partitions remember.",
    "quotas": "List, set and remove quotas of users, client ids and addresses.",
    "replicas": "Compare the replicas of partitions, and move them between disks.",
    "share": "Read records as a member of a share group.",
    "start": "Start a broker.",
    "tokens": "Create, renew, expire and list delegation tokens.",
    "tiers": "Show what of tiered topics is where, and check the store.",
    "topics": "List, create, describe, change and delete topics.",
    "transactions": "List, describe and abort transactions, find hanging ones.",
    "users": "List users, set their passwords and remove them.",
    "zookeeper": "Show and explain the tree of a cluster in ZooKeeper.",
}


DEFAULT_SERVER = "127.0.0.1:9092"
INTERRUPTED = 130
OUTPUT_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class NodeEnded(SystemExit):
    """A node has ended, and has closed all that it had; the code of the process."""


@contextmanager
def loading() -> Iterator[None]:
    """Switch the garbage collector off while modules are loaded: nothing becomes garbage then, and it would walk all
    objects repeatedly."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Commands(click.Group):
    """A group that says where a misplaced option belongs, as in ``kpybroker cluster -b HOST``.

    ``modules`` names the modules of commands that are imported only when they are used; each has the command's name,
    dashes as underscores.
    """

    def __init__(self, *arguments: Any, modules: Mapping[str, str] | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._modules = modules or {}

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted({*super().list_commands(context), *self._modules})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module = self._modules.get(name)
        if module is not None and name not in self.commands:
            with loading():
                self.add_command(getattr(import_module(f"kpybroker.cli.{module}"), name.replace("-", "_")))
        return super().get_command(context, name)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(context, args)
        except click.NoSuchOption as error:
            place = self._place_of(error.option_name, words, context)
            if place is None:
                raise
            text = f"{error.option_name} stands behind the command: {place} {error.option_name} ..."
            raise click.UsageError(text, context) from None

    def _place_of(self, option: str, words: list[str], context: click.Context) -> str | None:
        """The command that takes an option: one of those that are named, or one of this group; None if there is
        none."""
        path, group = context.command_path, self
        while True:
            names = group.list_commands(context)
            name = next((each for each in words if each in names), "describe" if "describe" in names else names[0])
            found, path = group.get_command(context, name), f"{path} {name}"
            if not isinstance(found, Commands):
                break
            group = found
        return path if found is not None and any(option in each.opts for each in found.params) else None


class _Lazy(Commands):
    """A group whose commands are ``kpybroker.cli.<name>:command``, dashes as underscores."""

    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        with loading():
            command: click.Command = import_module(f"kpybroker.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command. ``topic`` is nearly ``topics``: click does not find such names by itself, since the
        commands are not loaded."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(context, args)
        raise click.NoSuchCommand(name, possibilities=COMMANDS, ctx=context)

    def invoke(self, context: click.Context) -> Any:
        """Run a command. If the output cannot be written, as on a full disk, print one line instead of a traceback.
        Ctrl-C needs no message."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None
        except OSError as error:
            if error.errno not in OUTPUT_FAILED:
                raise
            # Or the interpreter tries once more at its end, to complain about what is still in the buffer.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise click.ClickException(f"the output cannot be written: {error.strerror}") from None

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def form() -> str:
    """The form of the installation: pure Python as in a checkout, or a wheel with compiled modules."""
    walk = find_spec("kpywire.walk")
    is_compiled = walk is not None and isinstance(walk.loader, ExtensionFileLoader)
    return "compiled" if is_compiled else "pure Python"


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kpybroker", message=f"%(prog)s, version %(version)s, {form()}")
def main() -> None:
    """An Apache Kafka broker in Python, and a client for any Kafka.

    New here? `kpybroker start` runs a broker and says what to paste next, `kpybroker demo` plays a year of flights.
    """
