"""``kpybroker producers``: the idempotent producers of partitions, with the transactions that they have open there."""

import click

from kpybroker.cli import completion
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.tables import columns, show_json, time_text
from kpybroker.client import producer_requests


@click.command("producers")
@click.argument(
    "topics",
    metavar="TOPIC[:0,1]...",
    nargs=-1,
    required=True,
    callback=scope_of,
    shell_complete=completion.topics,
)
@click.option(
    "--broker-id", "broker", type=click.IntRange(0), metavar="ID", help="Ask this broker. [default: the leaders]"
)
@json_output
@bootstrap_server
def command(topics: tuple[tuple[str, tuple[int, ...]], ...], broker: int | None, as_json: bool, server: str) -> None:
    """Show the producers that the leaders of partitions remember: idempotent and transactional ones."""
    with connected(server) as client:
        found = producer_requests.producers(client, partitions_of(client, topics), broker)
    if as_json:
        show_json(
            [
                {"topic": each.spot.topic, "partition": each.spot.partition}
                | {name: value for name, value in each._asdict().items() if name != "spot"}
                for each in found
            ]
        )
        return
    if not found:
        click.echo("No producers: none is idempotent, or they have been idle too long.", err=True)
        return
    headings = ("TOPIC", "PARTITION", "PRODUCER ID", "EPOCH", "SEQUENCE", "LAST WRITE", "COORDINATOR EPOCH", "OPEN AT")
    rows = [
        (
            *each.spot,
            each.producer_id,
            each.epoch,
            "-" if each.last_sequence is None else each.last_sequence,
            "-" if each.last_write_ms is None else time_text(each.last_write_ms),
            "-" if each.coordinator_epoch is None else each.coordinator_epoch,
            "-" if each.open_since_offset is None else each.open_since_offset,
        )
        for each in found
    ]
    click.echo(columns(headings, rows))
