"""``kpybroker users``: list users, set their passwords and remove them (SCRAM)."""

import os
from typing import TextIO

import click

from kpybroker.cli import Commands
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, show_json
from kpybroker.client import user_requests
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SCRAM_SHA_512
from kpywire import error_codes

PASSWORD_VARIABLE = "KPYBROKER_PASSWORD"
LONGEST_PASSWORD = 1 << 16


@click.group(name="users", cls=Commands)
def command() -> None:
    """List users, set their passwords and remove them."""


@command.command("list")
@click.argument("names", metavar="[USER]...", nargs=-1)
@json_output
@bootstrap_server
def list_(names: tuple[str, ...], as_json: bool, server: str) -> None:
    """List users with the mechanisms by which they can log in."""
    with connected(server) as client:
        found = user_requests.credentials(client, *dict.fromkeys(names))
    if as_json:
        show_json([each._asdict() for each in found])
    elif found:
        click.echo(columns(("USER", "MECHANISM", "ITERATIONS"), found))
    else:
        click.echo("No users.", err=True)


@command.command("set")
@click.argument("name", metavar="USER")
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(MECHANISMS), case_sensitive=False),
    default=(SCRAM_SHA_512.name,),
    show_default=True,
    help="A mechanism by which the user can log in. Repeatable.",
)
@click.option(
    "--iterations",
    type=click.IntRange(MIN_ITERATIONS, MAX_ITERATIONS),
    default=MIN_ITERATIONS,
    show_default=True,
    help="More make it slower to guess the password, and to log in.",
)
@click.option(
    "--password-file",
    type=click.File(),
    help="Read the password from the first line of this file; - is stdin. Without it, from KPYBROKER_PASSWORD, or by a "
    "prompt.",
)
@bootstrap_server
def set_(name: str, mechanisms: tuple[str, ...], iterations: int, password_file: TextIO | None, server: str) -> None:
    """Give a user a password, which replaces the one it had.

    The password is never sent: the cluster stores keys that follow from it.
    """
    password = _password(name, password_file)
    with connected(server) as client:
        for mechanism in dict.fromkeys(mechanisms):
            user_requests.set_password(client, name, password, MECHANISMS[mechanism], iterations)
            click.echo(f"Set the password of {name} for {mechanism}")


def _password(name: str, file: TextIO | None) -> str:
    """The password from a file, the environment or a prompt. An option would show it in the list of processes."""
    if file is not None:
        password = file.readline(LONGEST_PASSWORD).rstrip("\r\n")
    else:
        password = os.environ.get(PASSWORD_VARIABLE) or click.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True
        )
    if not password:
        raise click.UsageError("the password is empty")
    return password


@command.command()
@click.argument("name", metavar="USER")
@click.option(
    "-m",
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(list(MECHANISMS), case_sensitive=False),
    help="Remove only the credential of this mechanism. Repeatable.",
)
@click.option("--if-exists", is_flag=True, help="Do not fail if the user does not exist.")
@bootstrap_server
def remove(name: str, mechanisms: tuple[str, ...], if_exists: bool, server: str) -> None:
    """Remove a user's credentials. Connections that are open stay open."""
    with connected(server) as client:
        try:
            wanted = mechanisms or [each.mechanism for each in user_requests.credentials(client, name)]
            for mechanism in dict.fromkeys(wanted):
                user_requests.remove(client, name, MECHANISMS[mechanism])
                click.echo(f"Removed {name} from {mechanism}")
        except KafkaError as error:
            if not (if_exists and error.code == error_codes.RESOURCE_NOT_FOUND):
                raise
            click.echo(f"{name} does not exist")
