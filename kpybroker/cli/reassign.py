"""``kpybroker topics reassign``: give the partitions of topics to other brokers, or more or fewer of them."""

import time
from collections.abc import Mapping

import click

from kpybroker.cli import completion
from kpybroker.cli.options import bootstrap_server, connected
from kpybroker.cli.progress import ProgressLine
from kpybroker.client import reassignment_requests, topic_requests
from kpybroker.client.client import Client
from kpybroker.client.reassignment_requests import Assignment

LOOK_EVERY_S = 0.2
LARGEST_ID = (1 << 31) - 1


def broker_ids(_context: click.Context, _option: click.Parameter, text: str) -> list[int]:
    """The ids in ``1,2,3``; click.BadParameter for anything else."""
    try:
        ids = [int(word) for word in text.split(",")]
    except ValueError:
        ids = [-1]
    if not all(0 <= each <= LARGEST_ID for each in ids):
        raise click.BadParameter(f"{text!r} is not a list of ids such as 1,2,3")
    if len(set(ids)) != len(ids):
        raise click.BadParameter(f"{text!r} names a broker twice")
    return ids


def wait_until_moved(client: Client, wanted: Mapping[str, Assignment]) -> None:
    """Wait until all replicas are where they are wanted, and show how many partitions are. Raises KafkaError."""
    total = sum(len(assignment) for assignment in wanted.values())
    with ProgressLine("Moved", "partition", total) as progress:
        while left := reassignment_requests.unfinished(client, wanted):
            progress.reached(total - left)
            time.sleep(LOOK_EVERY_S)


@click.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
@click.option(
    "--broker-list",
    "brokers",
    required=True,
    metavar="ID,ID,...",
    callback=broker_ids,
    help="The brokers that get the replicas.",
)
@click.option(
    "-r",
    "--replication-factor",
    "replicas",
    type=click.IntRange(1),
    metavar="N",
    help="The new number of replicas of each partition. [default: as many as it has]",
)
@click.option("--no-wait", is_flag=True, help="End once the move is accepted.")
@bootstrap_server
def reassign(names: tuple[str, ...], brokers: list[int], replicas: int | None, no_wait: bool, server: str) -> None:
    """Spread the replicas of topics evenly over brokers, and wait until they are there.

    This also raises or lowers the number of replicas. Ctrl-C ends the waiting, not the move.
    """
    with connected(server) as client:
        topics = topic_requests.existing(client, dict.fromkeys(names))
        most = replicas or max(topic_requests.replicas_of(topic) for topic in topics)
        if most > len(brokers):
            raise click.UsageError(f"{most} replicas need {most} brokers, and --broker-list names {len(brokers)}")
        wanted = reassignment_requests.spread(topics, brokers, replicas)
        reassignment_requests.reassign(client, wanted)
        if not no_wait:
            wait_until_moved(client, wanted)
    where = ",".join(map(str, brokers))
    for name, assignment in wanted.items():
        count = len(assignment)
        reported = "Moving" if no_wait else "Moved"
        click.echo(f"{reported} {name}: {count} partition{'s' * (count != 1)} on brokers {where}")
