"""``kpybroker balance directories``: replicas of one broker are moved between its log directories."""

from typing import Final

import click

from kpybroker.cli.options import bootstrap_server, connected
from kpybroker.cli.tables import plural, printable
from kpybroker.client import cluster_requests
from kpybroker.client.client import Client, Spot
from kpybroker.machines.balance.directories import DirectoryLoad, DirectoryMove, plan_directories
from kpybroker.machines.balance.words import size_words

PERCENTS: Final = click.FloatRange(0, 100)


@click.command()
@click.argument("broker", type=click.IntRange(0))
@click.option(
    "--empty", "emptied", multiple=True, metavar="DIR", help="A log directory that loses all replicas. Repeatable."
)
@click.option(
    "--tolerance",
    type=PERCENTS,
    default=10.0,
    show_default=True,
    metavar="PERCENT",
    help="A disk may be filled more than the mean by that much.",
)
@click.option(
    "--disk-limit",
    type=PERCENTS,
    default=85.0,
    show_default=True,
    metavar="PERCENT",
    help="No move fills a disk more than that.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Let the broker begin all these moves.")
@bootstrap_server
def directories(
    broker: int, emptied: tuple[str, ...], tolerance: float, disk_limit: float, is_applied: bool, server: str
) -> None:
    """Plan moves of a broker's replicas between its log directories, with the reason of each.

    Cordoned directories get nothing. With --apply the broker copies in the background; cluster log-dirs shows the
    result.
    """
    with connected(server) as client:
        loads = _loads(client, broker)
        unknown = set(emptied) - {each.path for each in loads}
        if unknown:
            raise click.ClickException(f"broker {broker} has no log directory {printable(min(unknown))}")
        moves = plan_directories(loads, emptied, tolerance=tolerance / 100, disk_limit=disk_limit / 100)
        for each in moves:
            click.echo(printable(each.text))
        if not moves:
            click.echo("Nothing has to move.")
        elif is_applied:
            _begin(client, broker, moves)
    if moves:
        what = "begun" if is_applied else "planned"
        size = size_words(sum(each.size_bytes for each in moves))
        click.echo(f"{plural(len(moves), 'move')} of {size} in all {'is' if len(moves) == 1 else 'are'} {what}.")


def _loads(client: Client, broker: int) -> list[DirectoryLoad]:
    found = []
    for each in cluster_requests.directories_with_replicas(client, client.live_node(broker)):
        if each.error_code:
            continue
        parts = [(topic.name, part) for topic in each.topics for part in topic.partitions]
        moving = {(name, part.partition_index) for name, part in parts if part.is_future_key}
        sizes = {
            (name, part.partition_index): part.partition_size
            for name, part in parts
            if (name, part.partition_index) not in moving
        }
        found.append(DirectoryLoad(each.log_dir, each.total_bytes, each.usable_bytes, each.is_cordoned, sizes))
    return found


def _begin(client: Client, broker: int, moves: list[DirectoryMove]) -> None:
    by_target: dict[str, list[Spot]] = {}
    for each in moves:
        by_target.setdefault(each.target, []).append(Spot(each.topic, each.partition))
    for target, spots in by_target.items():
        cluster_requests.move_replicas(client, broker, target, spots)
