"""``kpybroker cluster voters`` and ``controllers``: the members of the controllers' quorum, and changes of it."""

from typing import Any

import click

from kpybroker.cli import Commands
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, show_json
from kpybroker.client import quorum_requests
from kpybroker.client.quorum_requests import QuorumController
from kpywire.uuid import from_string, to_string


class DirectoryId(click.ParamType[bytes]):
    """The id of a log directory, as Kafka writes it: 22 letters of base64."""

    name = "directory id"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        try:
            return from_string(str(value))
        except ValueError:
            self.fail(f"{value!r} is not the id of a directory", param, context)


class ListenerAddress(click.ParamType[tuple[str, str, int]]):
    """``CONTROLLER://host:9093``."""

    name = "listener"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        name, _, address = str(value).rpartition("://")
        host, _, port = address.rpartition(":")
        if not (name and host and port.isdecimal() and 0 < int(port) < 65536):
            self.fail(f"{value!r} is not a listener such as CONTROLLER://host:9093", param, context)
        return name, host.removeprefix("[").removesuffix("]"), int(port)


NODE_ID, DIRECTORY_ID, LISTENER = click.IntRange(0), DirectoryId(), ListenerAddress()


@click.command()
@json_output
@bootstrap_server
def controllers(as_json: bool, server: str) -> None:
    """Show the controllers: the leader of the quorum, the other voters, and observers, which can become voters.

    An observer that is a broker too is in `kpybroker cluster quorum`.
    """
    with connected(server) as client:
        found = quorum_requests.controllers(client)
    _show(found, as_json=as_json)


@click.group(name="voters", cls=Commands)
def voters() -> None:
    """List, add and remove the voters of the controllers' quorum (KIP-853)."""


@voters.command("list")
@json_output
@bootstrap_server
def list_(as_json: bool, server: str) -> None:
    """List the voters, with the ids of their directories."""
    with connected(server) as client:
        found = [each for each in quorum_requests.controllers(client) if each.role != quorum_requests.OBSERVER]
    _show(found, as_json=as_json)


def _show(found: list[QuorumController], *, as_json: bool) -> None:
    if as_json:
        show_json([{**each._asdict(), "directory_id": to_string(each.directory_id)} for each in found])
        return
    rows = [(each.id, to_string(each.directory_id), each.role, " ".join(each.addresses) or "-") for each in found]
    click.echo(columns(("NODE", "DIRECTORY", "ROLE", "ADDRESSES"), rows))


@voters.command()
@click.argument("properties", metavar="[PROPERTIES]", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option("--id", "node", type=NODE_ID, metavar="ID", help="The controller, in place of PROPERTIES.")
@click.option("--directory-id", type=DIRECTORY_ID, metavar="ID", help="The id of its metadata directory.")
@click.option(
    "--listener", "listeners", type=LISTENER, multiple=True, metavar="NAME://HOST:PORT", help="Its address. Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Print what would be added, and change nothing.")
@bootstrap_server
def add(
    properties: str | None,
    node: int | None,
    directory_id: bytes | None,
    listeners: tuple[tuple[str, str, int], ...],
    dry_run: bool,
    server: str,
) -> None:
    """Make a controller that runs, and follows the quorum as an observer, a voter.

    PROPERTIES is the server.properties of the controller, on its machine: its id, its directory and its addresses are
    read from there.
    """
    if properties is not None and (node is not None or directory_id is not None or listeners):
        raise click.UsageError("name PROPERTIES, or --id, --directory-id and --listener, not both")
    if properties is not None:
        from kpybroker.cli.controller_files import read_controller

        node, directory_id, listeners = read_controller(properties)
    if node is None or directory_id is None or not listeners:
        raise click.UsageError("name the server.properties of the controller, or --id, --directory-id and --listener")
    where = " ".join(f"{name}://{host}:{port}" for name, host, port in listeners)
    shown = f"controller {node} with the directory {to_string(directory_id)} at {where}"
    if dry_run:
        click.echo(f"Would add {shown}")
        return
    with connected(server) as client:
        quorum_requests.add_voter(client, node, directory_id, listeners)
    click.echo(f"Added {shown}")


@voters.command()
@click.argument("node", metavar="ID", type=NODE_ID)
@click.argument("directory_id", metavar="[DIRECTORY_ID]", type=DIRECTORY_ID, required=False)
@click.option("--unregister", is_flag=True, help="Also let the cluster forget the controller.")
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and change nothing.")
@bootstrap_server
def remove(node: int, directory_id: bytes | None, unregister: bool, dry_run: bool, server: str) -> None:
    """Take a voter out of the quorum. Its directory only needs a name if several voters have the ID."""
    with connected(server) as client:
        directory = quorum_requests.voter_directory(client, node, directory_id)
        shown = f"voter {node} with the directory {to_string(directory)}"
        if not dry_run:
            quorum_requests.remove_voter(client, node, directory)
            if unregister:
                quorum_requests.unregister_controller(client, node)
    click.echo(f"{'Would remove' if dry_run else 'Removed'} {shown}")
