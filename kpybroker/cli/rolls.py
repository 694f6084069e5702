"""``kpybroker cluster roll-plan`` and ``leave``: which nodes may stop together, and the wait of a node for its turn."""

import time
from collections.abc import Iterable, Mapping
from typing import Final

import click

from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, printable, show_json
from kpybroker.client import cluster_load
from kpybroker.client.client import Client
from kpybroker.client.turns import LeavingTurn
from kpybroker.machines.balance.rolling import objections
from kpybroker.machines.balance.rolling import roll_plan as sets_of

SHOWN_UNSPARED: Final = 5
LOOK_EVERY_S: Final = 1.0


@click.command("roll-plan")
@click.argument("nodes", metavar="[NODE]...", nargs=-1, type=click.IntRange(0))
@json_output
@bootstrap_server
def roll_plan(nodes: tuple[int, ...], as_json: bool, server: str) -> None:
    """Show which nodes may stop together, set by set: for restarts and upgrades, a rack at a time.

    Begin a set when all partitions are in sync again. No partition falls below min.insync.replicas, and the controllers
    keep their majority; the one that leads comes last. The exit code is 4 if a node may not stop now.
    """
    with connected(server) as client:
        model = cluster_load.measure(client).model
        quorum = cluster_load.quorum_of(client)
    found = sets_of(model, quorum, nodes or None)
    racks = {node.id: node.rack or "-" for node in model.nodes}
    if as_json:
        show_json(
            {
                "sets": [list(each) for each in found.sets],
                "waiting": [{"node": node, "reason": reason} for node, reason in found.waiting],
                "unspared": found.unspared,
            }
        )
    else:
        rows = [
            (number, ",".join(map(str, each)), ",".join(sorted({racks.get(node, "-") for node in each})))
            for number, each in enumerate(found.sets, 1)
        ]
        click.echo(columns(("SET", "NODES", "RACK"), rows))
        for node, reason in found.waiting:
            click.echo(f"Node {node} may not stop now: {printable(reason)}")
        if found.unspared:
            named = ", ".join(found.unspared[:SHOWN_UNSPARED]) + ", ..." * (len(found.unspared) > SHOWN_UNSPARED)
            click.echo(f"{plural(len(found.unspared), 'partition')} without a replica to spare: {printable(named)}")
    if found.waiting:
        raise SystemExit(NOT_IN_ORDER)


@click.command()
@click.argument("node", metavar="NODE", type=click.IntRange(0))
@click.option("--until-safe", is_flag=True, help="Wait for the turn of the node, and do not only ask.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0), metavar="SECONDS", help="Wait at most that long.")
@click.option(
    "--hold",
    "hold_s",
    type=click.FloatRange(6),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The time in which the node has to stop after its turn has come: nobody else may before.",
)
@bootstrap_server
def leave(node: int, until_safe: bool, timeout_s: float | None, hold_s: float, server: str) -> None:
    """Say whether a node may stop now, or with --until-safe wait until it may. Stop it then.

    A hook before a pod or a service stops is the place for it. Nodes that wait together get their turns one after
    another, and nodes of a rack together. The exit code is 4 if the node may not stop.
    """
    with connected(server) as client:
        reason = _waited(client, node, timeout_s, hold_s) if until_safe else _decided(client, [node])[node]
    if reason is not None:
        click.echo(f"Node {node} may not stop now: {printable(reason)}", err=True)
        raise SystemExit(NOT_IN_ORDER)
    click.echo(f"Node {node} may stop now.")


def _decided(client: Client, nodes: Iterable[int]) -> Mapping[int, str | None]:
    return objections(cluster_load.measure(client).model, cluster_load.quorum_of(client), nodes)


def _waited(client: Client, node: int, timeout_s: float | None, hold_s: float) -> str | None:
    """Wait for the turn of a node. Return the reason why it may not stop when the time is over, None if it may."""
    turn = LeavingTurn(client, node, lambda nodes: _decided(client, nodes), hold_s)
    began, shown = time.monotonic(), None
    try:
        while True:
            reason = turn.ask()
            if reason is None or (timeout_s is not None and time.monotonic() - began >= timeout_s):
                break
            if reason != shown:
                shown = reason
                click.echo(f"Waiting: {printable(reason)}", err=True)
            turn.wait(LOOK_EVERY_S)
    except KeyboardInterrupt:
        turn.give_up()
        raise
    if reason is not None:
        turn.give_up()
    return reason
