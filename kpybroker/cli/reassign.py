"""``kpybroker topics reassign`` and ``reassignments``: replicas on other brokers, or more or fewer of them."""

import json
import time
from collections.abc import Iterable, Mapping
from typing import TextIO

import click

from kpybroker.cli import completion
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.tables import columns, plural, show_json
from kpybroker.client import reassignment_requests, topic_requests
from kpybroker.client.client import Client
from kpybroker.client.reassignment_requests import Assignment

LOOK_EVERY_S = 0.2
LARGEST_ID = (1 << 31) - 1


def broker_ids(_context: click.Context, _option: click.Parameter, text: str | None) -> list[int] | None:
    """The ids in ``1,2,3``; click.BadParameter for anything else."""
    if text is None:
        return None
    try:
        ids = [int(word) for word in text.split(",")]
    except ValueError:
        ids = [-1]
    if not all(0 <= each <= LARGEST_ID for each in ids):
        raise click.BadParameter(f"{text!r} is not a list of ids such as 1,2,3")
    if len(set(ids)) != len(ids):
        raise click.BadParameter(f"{text!r} names a broker twice")
    return ids


def assignments_in(file: TextIO) -> dict[str, dict[int, list[int]]]:
    """The replicas in a file as kafka-reassign-partitions takes it; click.BadParameter for another one."""
    wanted: dict[str, dict[int, list[int]]] = {}
    try:
        for each in json.load(file)["partitions"]:
            replicas = wanted.setdefault(str(each["topic"]), {})
            replicas[int(each["partition"])] = [int(broker) for broker in each["replicas"]]
    except (ValueError, KeyError, TypeError):
        form = '{"partitions": [{"topic": NAME, "partition": N, "replicas": [ID, ...]}, ...]}'
        raise click.BadParameter(f"{file.name} is not {form}", param_hint="--reassignment-json-file") from None
    return wanted


def wait_until_moved(client: Client, wanted: Mapping[str, Assignment]) -> None:
    """Wait until all replicas are where they are wanted, and show how many partitions are. Raises KafkaError."""
    total = sum(len(assignment) for assignment in wanted.values())
    with ProgressLine("Moved", "partition", total) as progress:
        while left := reassignment_requests.unfinished(client, wanted):
            progress.reached(total - left)
            time.sleep(LOOK_EVERY_S)


@click.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=completion.topics)
@click.option(
    "--broker-list",
    "brokers",
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
@click.option("--reassignment-json-file", "file", type=click.File(), help="The wanted replicas, in place of TOPIC.")
@click.option("--no-wait", is_flag=True, help="End once the move is accepted.")
@bootstrap_server
def reassign(
    names: tuple[str, ...],
    brokers: list[int] | None,
    replicas: int | None,
    file: TextIO | None,
    no_wait: bool,
    server: str,
) -> None:
    """Spread the replicas of topics evenly over brokers, and wait until they are there.

    This also raises or lowers the number of replicas. Ctrl-C ends the waiting, not the move. A file has the form that
    kafka-reassign-partitions takes.
    """
    if file is not None and (names or brokers or replicas):
        raise click.UsageError("--reassignment-json-file names topics and brokers by itself")
    if file is None and not (names and brokers):
        raise click.UsageError("name topics and --broker-list, or a --reassignment-json-file")
    planned = None if file is None else assignments_in(file)
    with connected(server) as client:
        wanted = _spread(client, names, brokers or [], replicas) if planned is None else planned
        reassignment_requests.reassign(client, wanted)
        if not no_wait:
            wait_until_moved(client, wanted)
    for name, assignment in wanted.items():
        where = ",".join(map(str, sorted({broker for each in assignment.values() for broker in each})))
        reported = "Moving" if no_wait else "Moved"
        click.echo(f"{reported} {name}: {plural(len(assignment), 'partition')} on brokers {where}")


def _spread(
    client: Client, names: Iterable[str], brokers: list[int], replicas: int | None
) -> dict[str, dict[int, list[int]]]:
    topics = topic_requests.existing(client, dict.fromkeys(names))
    most = replicas or max(topic_requests.replicas_of(topic) for topic in topics)
    if most > len(brokers):
        raise click.UsageError(f"{most} replicas need {most} brokers, and --broker-list names {len(brokers)}")
    return reassignment_requests.spread(topics, brokers, replicas)


@click.command()
@click.argument("topics", metavar="[TOPIC[:0,1]]...", nargs=-1, callback=scope_of, shell_complete=completion.topics)
@click.option("--cancel", is_flag=True, help="Cancel them: the replicas stay where they were before.")
@json_output
@bootstrap_server
def reassignments(topics: tuple[tuple[str, tuple[int, ...]], ...], cancel: bool, as_json: bool, server: str) -> None:
    """Show the partitions whose replicas move, of some topics or of all."""
    with connected(server) as client:
        found = reassignment_requests.moving(client, partitions_of(client, topics) if topics else None)
        if cancel:
            stopped: dict[str, dict[int, None]] = {}
            for each in found:
                stopped.setdefault(each.spot.topic, {})[each.spot.partition] = None
            reassignment_requests.reassign(client, stopped)
    if as_json:
        show_json(
            [
                {"topic": each.spot.topic, "partition": each.spot.partition}
                | {"replicas": each.replicas, "adding": each.adding, "removing": each.removing}
                for each in found
            ]
        )
    elif not found:
        click.echo("No partition moves.", err=True)
    elif cancel:
        click.echo("\n".join(f"Cancelled the move of {each.spot}" for each in found))
    else:
        rows = [(*each.spot, *(_ids(part) for part in each[1:])) for each in found]
        click.echo(columns(("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"), rows))


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "-"
