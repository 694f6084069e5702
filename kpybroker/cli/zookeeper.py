"""``kpybroker zookeeper``: the tree of a cluster in ZooKeeper, shown and explained. Nothing is written."""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from kpybroker.cli.options import NOT_IN_ORDER, NotReached
from kpybroker.cli.tables import printable, show_json

if TYPE_CHECKING:
    from kpybroker.machines.zookeeper.snapshot import TreeSnapshot


@click.command(name="zookeeper")
@click.argument("connect", metavar="HOST:PORT[,HOST:PORT...][/CHROOT]")
@click.argument("path", default="/")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--no-brokers", is_flag=True, help="Do not ask the brokers what they tell their clients.")
@click.option("--timeout", default=10.0, show_default=True, metavar="SECONDS", help="The time to reach ZooKeeper.")
def command(connect: str, path: str, as_json: bool, no_brokers: bool, timeout: float) -> None:
    """Show the znodes of a Kafka cluster below PATH: who writes each, and who watches it.

    Then say what does not fit together: among the znodes, and between them and what the brokers tell their clients.
    CONNECT is written as in zookeeper.connect. Exit code 4 if something does not fit. Some contradictions are normal
    for a moment, while the controller works.
    """
    from kpybroker.hosts.zookeeper.view import disagreements

    tree = asyncio.run(read_snapshot(connect, timeout))
    found = disagreements.in_the_tree(tree)
    if not no_brokers:
        found += _of_brokers(tree)
    shown = {each: node for each, node in tree.nodes.items() if _is_below(each, path)}
    if as_json:
        znodes = {each: _document(each, node) for each, node in shown.items()}
        show_json({"server": tree.server, "znodes": znodes, "disagreements": found})
    else:
        for each, node in shown.items():
            click.echo(_lines(each, node))
        if not shown:
            click.echo(f"There is no znode {printable(path)}")
        click.echo("")
        click.echo(f"Read from {printable(tree.server)}, which had caught up with its leader.")
        click.echo("\n".join(f"! {printable(each)}" for each in found) or "Everything fits together.")
    if found:
        raise SystemExit(NOT_IN_ORDER)


async def read_snapshot(connect: str, timeout_s: float) -> "TreeSnapshot":
    """All znodes of a cluster."""
    import random

    from kpybroker.hosts.network.peers import connect_over
    from kpybroker.hosts.zookeeper.client.client import (
        NoAnswer,
        ZooKeeperClient,
        ZooKeeperError,
        ZooKeeperNotConnected,
        ZooKeeperSettings,
    )
    from kpybroker.hosts.zookeeper.view.reading import read_tree
    from kpybroker.machines.zookeeper.client.addresses import BadConnect, parse
    from kpybroker.machines.zookeeper.snapshot import TreeSnapshot
    from kpybroker.runtime.io.scheduler import LoopScheduler

    try:
        servers = parse(connect)
    except BadConnect as error:
        raise click.BadParameter(str(error)) from None
    loop = asyncio.get_running_loop()
    scheduler = LoopScheduler(loop)
    client = ZooKeeperClient(
        scheduler, connect_over(loop), ZooKeeperSettings(servers, most_in_flight=100), random.Random()
    )
    client.open()
    try:
        await client.wait_until_connected(timeout_s * 1000)
        return TreeSnapshot(await read_tree(client), client.server)
    except ZooKeeperNotConnected as error:
        raise NotReached(str(error)) from None
    except ZooKeeperError as error:
        raise click.ClickException(f"{error}; is the chroot right?") from None
    except NoAnswer as error:
        raise NotReached(str(error)) from None
    finally:
        await client.close()
        await scheduler.close()


def _of_brokers(tree: Any) -> list[str]:
    """The contradictions between the tree and the brokers that can be asked without a login."""
    from kpybroker.client.client import Client
    from kpybroker.client.connection import Unreachable
    from kpybroker.hosts.zookeeper.view import disagreements
    from kpybroker.machines.errors import KafkaError
    from kpywire.messages.metadata import MetadataRequest

    found = []
    for broker_id, broker in sorted(tree.brokers.items()):
        plain = [each for each in broker.endpoints if broker.protocols.get(each.listener) == "PLAINTEXT"]
        if not plain:
            found.append(f"broker {broker_id} has no plaintext listener, so it is not asked")
            continue
        host = f"[{plain[0].host}]" if ":" in plain[0].host else plain[0].host
        try:
            with Client(f"{host}:{plain[0].port}") as client:
                request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
                answer = client.call(request)
            found += disagreements.with_a_broker(tree, broker_id, answer)
        except (KafkaError, Unreachable, ValueError) as error:
            found.append(f"broker {broker_id} is registered, but does not answer: {error}")
    return found


def _is_below(path: str, root: str) -> bool:
    return root == "/" or path == root or path.startswith(f"{root.rstrip('/')}/")


def _lines(path: str, node: Any) -> str:
    from kpybroker.machines.zookeeper.tree.kinds import kind_of

    kind, content = kind_of(path), node.shown(path)
    owner = f", of session 0x{node.stat.ephemeral_owner:x}" if node.stat.ephemeral_owner else ""
    head = f"{path}  (version {node.stat.version}{owner})"
    lines = [printable(head)]
    if kind is not None:
        watched = f"; {kind.watcher} watch{'es' * (not kind.watcher.startswith('all '))} it" if kind.watcher else ""
        lines.append(f"    {kind.meaning}; written by {kind.writer}{watched}")
    if content:
        lines.append(f"    {printable(content)}")
    return "\n".join(lines)


def _document(path: str, node: Any) -> dict[str, Any]:
    from kpybroker.machines.zookeeper.tree.kinds import kind_of

    kind = kind_of(path)
    return {
        "data": None if node.data is None else node.shown(path),
        "version": node.stat.version,
        "session": node.stat.ephemeral_owner or None,
        "meaning": None if kind is None else kind.meaning,
        "writer": None if kind is None else kind.writer,
        "watcher": None if kind is None else kind.watcher or None,
    }
