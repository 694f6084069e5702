"""``kpybroker replicas``: compare the replicas of partitions, byte by byte, and move them between log directories."""

from collections.abc import Sequence

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.audit import audited
from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.tables import bytes_text, columns, plural, printable, show_json
from kpybroker.client import cluster_requests, topic_requests
from kpybroker.client.client import Client
from kpybroker.machines.audit.findings import DAMAGE
from kpybroker.machines.audit.running import EQUALITY


@click.group(name="replicas", cls=Commands)
def command() -> None:
    """Compare the replicas of partitions, and move them between disks."""


@command.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=completion.topics)
@json_output
@bootstrap_server
def verify(names: tuple[str, ...], as_json: bool, server: str) -> None:
    """Read every replica of topics, of all by default, and say which differ from their leaders'.

    Compared is what lies below the high watermark. The exit code is 4 if a replica differs, is damaged, could not be
    read or has no broker. `kpybroker audit` also checks transactions, groups and files.
    """
    with connected(server) as client:
        away = _away(client, names)
    result = audited(server, names)
    differing = [each for each in result.findings if each.claim in EQUALITY and each.topic]
    damages = [each for each in differing if each.level == DAMAGE]
    if as_json:
        show_json(
            {
                "partitions": result.partitions,
                "compared": result.compared,
                "equal": result.equal,
                "findings": [each._asdict() for each in differing],
                "away": [dict(zip(("topic", "partition", "broker"), each, strict=True)) for each in away],
            }
        )
    else:
        for each in differing:
            click.echo(f"{'DIFFERS' if each in damages else 'note'}  {printable(each.line)}")
        if away:
            click.echo(columns(("TOPIC", "PARTITION", "AWAY"), [(*each[:2], f"broker {each[2]}") for each in away]))
        read = f"{plural(result.partitions, 'partition')}, {bytes_text(result.read_bytes)} read"
        click.echo(f"{read}; of {result.compared} with several replicas, {result.equal} are equal on all of them.")
    if damages or away or result.equal < result.compared:
        raise SystemExit(NOT_IN_ORDER)


def _away(client: Client, names: Sequence[str]) -> list[tuple[str, int, int]]:
    """The replicas on brokers that are away: topic, partition, broker."""
    topics = topic_requests.existing(client, dict.fromkeys(names))
    alive = {node.node_id for node in client.nodes()}
    return [
        (topic.name or "", part.partition_index, broker)
        for topic in topics
        for part in topic.partitions
        for broker in part.replica_nodes
        if broker not in alive
    ]


@command.command()
@click.argument(
    "topics", metavar="TOPIC[:0,1]...", nargs=-1, required=True, callback=scope_of, shell_complete=completion.topics
)
@click.option("--broker-id", "broker", type=click.IntRange(0), required=True, metavar="ID", help="The broker.")
@click.option(
    "--to", "path", required=True, metavar="DIR", help="One of its log directories, as cluster log-dirs shows."
)
@bootstrap_server
def move(topics: tuple[tuple[str, tuple[int, ...]], ...], broker: int, path: str, server: str) -> None:
    """Move replicas of a broker into another of its log directories. They are copied in the background."""
    with connected(server) as client:
        spots = partitions_of(client, topics)
        cluster_requests.move_replicas(client, broker, path, spots)
    click.echo(f"Moving {plural(len(spots), 'replica')} of broker {broker} to {printable(path)}")
