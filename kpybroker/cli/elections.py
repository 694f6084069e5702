"""``kpybroker cluster elect``: elections of leaders, preferred or unclean."""

import json
from collections.abc import Iterable
from typing import TextIO

import click

from kpybroker.cli import completion
from kpybroker.cli.options import REFUSED, bootstrap_server, connected, error_text
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.client import election_requests
from kpybroker.client.client import Spot
from kpybroker.client.election_requests import TYPES, Elected
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes


def spots_in(file: TextIO) -> list[Spot]:
    """The partitions of a file as kafka-leader-election takes it; click.BadParameter for another one."""
    wanted = '{"partitions": [{"topic": NAME, "partition": N}, ...]}'
    try:
        return [Spot(str(each["topic"]), int(each["partition"])) for each in json.load(file)["partitions"]]
    except (ValueError, KeyError, TypeError):
        raise click.BadParameter(f"{file.name} is not {wanted}", param_hint="--path-to-json-file") from None


@click.command()
@click.argument("topics", metavar="[TOPIC[:0,1]]...", nargs=-1, callback=scope_of, shell_complete=completion.topics)
@click.option("--all", "--all-topic-partitions", "every", is_flag=True, help="All partitions that need an election.")
@click.option(
    "--path-to-json-file", "file", type=click.File(), help="A file with partitions, as Kafka's tool takes it."
)
@click.option(
    "--election-type",
    type=click.Choice(list(TYPES)),
    default="preferred",
    show_default=True,
    help="preferred: the first replica leads again. unclean: any replica may lead, and records may be lost.",
)
@bootstrap_server
def elect(
    topics: tuple[tuple[str, tuple[int, ...]], ...],
    every: bool,
    file: TextIO | None,
    election_type: str,
    server: str,
) -> None:
    """Elect new leaders of partitions."""
    if (bool(topics) + every + (file is not None)) != 1:
        raise click.UsageError("name partitions as TOPIC or TOPIC:0,1, or give --all or --path-to-json-file")
    with connected(server) as client:
        named = spots_in(file) if file is not None else partitions_of(client, topics)
        found = election_requests.elect(client, TYPES[election_type], None if every else named)
    _show(found)


def _show(found: Iterable[Elected]) -> None:
    shown = refused = 0
    for spot, code, message in found:
        shown += 1
        if code == error_codes.ELECTION_NOT_NEEDED:
            click.echo(f"{spot} needs no election")
        elif code:
            refused += 1
            error = KafkaError(code, f"{spot}: {message or error_codes.message(code)}")
            click.echo(f"Error: {error_text(error)}", err=True)
        else:
            click.echo(f"Elected a leader of {spot}")
    if not shown:
        click.echo("No partition needs an election.")
    if refused:
        raise SystemExit(REFUSED)
