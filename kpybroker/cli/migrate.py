"""``kpybroker migrate``: the way of a cluster from ZooKeeper to KRaft. Nothing is written."""

import asyncio
from typing import Any

import click

from kpybroker.cli.options import NOT_IN_ORDER
from kpybroker.cli.tables import printable, show_json


@click.group(name="migrate")
def command() -> None:
    """Follow the migration of a cluster from ZooKeeper to KRaft (KIP-866)."""


@command.command()
@click.argument("connect", metavar="HOST:PORT[,HOST:PORT...][/CHROOT]")
@click.option(
    "--bootstrap-controller",
    "controllers",
    default="",
    metavar="HOST:PORT[,HOST:PORT...]",
    help="All controllers of the quorum, which are asked whether they take part.",
)
@click.option("--no-brokers", is_flag=True, help="Do not ask the brokers whether they take part.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--timeout", default=10.0, show_default=True, metavar="SECONDS", help="The time to reach ZooKeeper.")
def status(connect: str, controllers: str, no_brokers: bool, as_json: bool, timeout: float) -> None:
    """Say in which phase the migration is, what is left, and what may go wrong next.

    CONNECT is written as in zookeeper.connect. Exit code 4 if something may go wrong.
    """
    from kpybroker.cli.zookeeper import read_snapshot
    from kpybroker.machines.zookeeper.progress import progress_of

    tree = asyncio.run(read_snapshot(connect, timeout))
    brokers = {} if no_brokers else _of_brokers(tree)
    progress = progress_of(tree, brokers, [_asked(each.strip()) for each in controllers.split(",") if each.strip()])
    if as_json:
        show_json(
            {
                "phase": progress.phase.name.lower(),
                "facts": progress.facts,
                "left": progress.left,
                "risks": progress.risks,
            }
        )
    else:
        click.echo(f"Phase: {progress.phase.value}.")
        for name, value in progress.facts.items():
            click.echo(f"  {name}: {_shown(value)}")
        click.echo("Left:")
        for each in progress.left:
            click.echo(f"  - {printable(each)}")
        click.echo("May go wrong:" if progress.risks else "Nothing is known that may go wrong next.")
        for each in progress.risks:
            click.echo(f"  ! {printable(each)}")
    if progress.risks:
        raise SystemExit(NOT_IN_ORDER)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _of_brokers(tree: Any) -> dict[int, Any]:
    """The answers of the brokers in ZooKeeper mode that can be asked without a login."""
    found = {}
    for broker_id, broker in sorted(tree.brokers.items()):
        plain = [each for each in broker.endpoints if broker.protocols.get(each.listener) == "PLAINTEXT"]
        if plain:
            host = f"[{plain[0].host}]" if ":" in plain[0].host else plain[0].host
            found[broker_id] = _asked(f"{host}:{plain[0].port}")
    return found


def _asked(address: str) -> Any:
    """The answer of a node to the question whether it is configured for the migration."""
    from kpybroker.client.client import Client
    from kpybroker.client.connection import Unreachable
    from kpybroker.machines.errors import KafkaError
    from kpybroker.machines.zookeeper.progress import NodeAnswer
    from kpywire.messages.api_versions import ApiVersionsRequest

    try:
        with Client(address) as client:
            request = ApiVersionsRequest(client_software_name="kpybroker", client_software_version="1")
            return NodeAnswer(address, client.call(request).zk_migration_ready)
    except (KafkaError, Unreachable, ValueError):
        return NodeAnswer(address, None)
