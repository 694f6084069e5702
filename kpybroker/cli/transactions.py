"""``kpybroker transactions``: list and describe transactions, abort them, and find those that hang."""

import shlex
import time
from collections.abc import Iterator
from typing import Any

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.periods import PERIOD
from kpybroker.cli.tables import columns, duration_text, plural, show_json, time_text
from kpybroker.client import transaction_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.transaction_requests import DescribedTransaction, HangingTransaction, TransactionFilter

MINUTE_MS = 60_000
ID = click.IntRange(0)


@click.group(name="transactions", cls=Commands)
def command() -> None:
    """List, describe and abort transactions, and find those that hang."""


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only this state, as Ongoing. Repeatable.")
@click.option(
    "--producer-id", "producer_ids", type=ID, multiple=True, metavar="ID", help="Only this producer. Repeatable."
)
@click.option("--older-than", "older_ms", type=PERIOD, metavar="PERIOD", help="Only those open longer, as 5min.")
@click.option(
    "--transactional-id-pattern", "pattern", metavar="REGEX", help="Only ids that match. Needs Kafka 4.1 or newer."
)
@json_output
@bootstrap_server
def list_(
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    older_ms: int | None,
    pattern: str | None,
    as_json: bool,
    server: str,
) -> None:
    """List transactional ids, with the state of their last transaction."""
    wanted = TransactionFilter(states, producer_ids, older_ms, pattern)
    with connected(server) as client:
        found = transaction_requests.transactions(client, wanted)
    if as_json:
        show_json([each._asdict() for each in found])
    elif found:
        click.echo(columns(("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER ID", "STATE"), found))
    else:
        click.echo("No transactions." if wanted == TransactionFilter() else "No such transactions.", err=True)


@command.command()
@click.argument("names", metavar="[ID]...", nargs=-1)
@click.option("--transactional-id", "more", multiple=True, metavar="ID", help="The same as the argument. Repeatable.")
@json_output
@bootstrap_server
def describe(names: tuple[str, ...], more: tuple[str, ...], as_json: bool, server: str) -> None:
    """Show the transactions of transactional ids: since when they are open, and where."""
    wanted = dict.fromkeys((*names, *more))
    if not wanted:
        raise click.UsageError("name a transactional id; kpybroker transactions list has them")
    with connected(server) as client:
        found = [transaction_requests.describe(client, each) for each in wanted]
    now_ms = time.time_ns() // 1_000_000
    if as_json:
        show_json([_as_dict(each, now_ms) for each in found])
        return
    headings = ("TRANSACTIONAL ID", "COORDINATOR", "PRODUCER ID", "EPOCH", "STATE", "TIMEOUT", "OPEN FOR", "PARTITIONS")
    rows = [
        (
            *each[:5],
            duration_text(each.timeout_ms),
            "-" if each.started_ms is None else duration_text(max(0, now_ms - each.started_ms)),
            " ".join(map(str, each.spots)) or "-",
        )
        for each in found
    ]
    click.echo(columns(headings, rows))


def _as_dict(found: DescribedTransaction, now_ms: int) -> dict[str, Any]:
    described = {name: value for name, value in found._asdict().items() if name != "spots"}
    open_ms = None if found.started_ms is None else max(0, now_ms - found.started_ms)
    return {**described, "open_ms": open_ms, "partitions": [each._asdict() for each in found.spots]}


@command.command()
@click.argument("name", metavar="[ID]", required=False)
@click.option("-t", "--topic", metavar="TOPIC", shell_complete=completion.topics, help="A hanging transaction's topic.")
@click.option("-p", "--partition", type=ID, metavar="N", help="Its partition.")
@click.option("--start-offset", type=ID, metavar="OFFSET", help="The offset at which it begins there.")
@click.option("--producer-id", type=ID, metavar="ID", help="Its producer, for brokers before Kafka 3.0.")
@click.option("--producer-epoch", type=ID, metavar="N", help="The epoch of this producer.")
@click.option("--coordinator-epoch", type=ID, metavar="N", help="The epoch of its coordinator.")
@bootstrap_server
def abort(
    name: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    server: str,
) -> None:
    """Abort the open transaction of a transactional ID, or a hanging one in a partition.

    The first fences the producer of the ID: its next request fails. The second writes a marker into the partition,
    and no coordinator hears of it; `kpybroker transactions find-hanging` prints what to give.
    """
    if (name is None) == (topic is None):
        raise click.UsageError("name a transactional id, or a partition with --topic, --partition and --start-offset")
    if name is not None:
        with connected(server) as client:
            transaction_requests.abort(client, name)
        click.echo(f"Aborted the transaction of {name}")
        return
    if topic is None or partition is None:
        raise click.UsageError("--topic and --partition name the partition together")
    producer = (producer_id, producer_epoch, coordinator_epoch)
    if (start_offset is None) == (producer_id is None) or (producer_id is not None and None in producer):
        raise click.UsageError("give --start-offset, or --producer-id, --producer-epoch and --coordinator-epoch")
    spot = Spot(topic, partition)
    with connected(server) as client:
        if start_offset is not None:
            found = transaction_requests.open_at(client, spot, start_offset)
            producer = (found.producer_id, found.epoch, found.coordinator_epoch)
        number, epoch, of_coordinator = producer
        transaction_requests.abort_in(client, spot, number or 0, epoch or 0, of_coordinator)
    click.echo(f"Aborted the transaction of producer id {number} in {spot}")


@command.command("find-hanging")
@click.argument("topics", metavar="[TOPIC[:0,1]]...", nargs=-1, callback=scope_of, shell_complete=completion.topics)
@click.option("-t", "--topic", "more", multiple=True, metavar="TOPIC", callback=scope_of, help="Like the argument.")
@click.option("--broker-id", "broker", type=ID, metavar="ID", help="Only partitions with a replica on this broker.")
@click.option(
    "--older-than",
    "older_ms",
    type=PERIOD,
    metavar="PERIOD",
    help="Only those without a write for this long. [default: the brokers' transaction.max.timeout.ms]",
)
@click.option("--max-transaction-timeout", "minutes", type=ID, metavar="MINUTES", help="The same in minutes.")
@json_output
@bootstrap_server
def find_hanging(
    topics: tuple[tuple[str, tuple[int, ...]], ...],
    more: tuple[tuple[str, tuple[int, ...]], ...],
    broker: int | None,
    older_ms: int | None,
    minutes: int | None,
    as_json: bool,
    server: str,
) -> None:
    """Find open transactions that no coordinator will end, in some partitions or in all.

    Readers with read_committed wait before such a transaction. The exit code is 4 if there is one.
    """
    if older_ms is not None and minutes is not None:
        raise click.UsageError("give --older-than or --max-transaction-timeout, not both")
    with connected(server) as client:
        named = partitions_of(client, (*topics, *more))
        spots = list(_searched(client, named, broker))
        chosen_ms = older_ms if minutes is None else minutes * MINUTE_MS
        limit_ms = transaction_requests.longest_timeout_ms(client) if chosen_ms is None else chosen_ms
        now_ms = time.time_ns() // 1_000_000
        found = transaction_requests.hanging(client, spots, limit_ms, now_ms)
    if as_json:
        show_json([_hanging_dict(each) for each in found])
    elif found:
        click.echo(_hanging_text(found, now_ms))
        click.echo("Abort them with:", err=True)
        for each in found:
            (topic, partition), offset = each.producer.spot, each.producer.open_since_offset
            words = f"--topic {shlex.quote(topic)} --partition {partition} --start-offset {offset}"
            click.echo(f"  kpybroker transactions abort {words}", err=True)
    else:
        text = f"No transaction hangs in {plural(len(spots), 'partition')}"
        click.echo(f"{text}, of those without a write for {duration_text(limit_ms)}.", err=True)
    if found:
        raise SystemExit(NOT_IN_ORDER)


def _searched(client: Client, named: list[Spot], broker: int | None) -> Iterator[Spot]:
    """The partitions to search: those that are named, or all, and of these the ones that a broker has. Those without
    a leader are named on stderr and left out."""
    wanted = set(named)
    for topic in client.topics({each.topic for each in named} or None):
        client.remember([topic])
        for part in topic.partitions:
            spot = Spot(topic.name or "", part.partition_index)
            if (wanted and spot not in wanted) or (broker is not None and broker not in part.replica_nodes):
                continue
            if part.leader_id >= 0:
                yield spot
            else:
                click.echo(f"Left out: partition {spot} has no leader.", err=True)


def _hanging_dict(found: HangingTransaction) -> dict[str, Any]:
    producer = found.producer
    return {
        "topic": producer.spot.topic,
        "partition": producer.spot.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.open_since_offset,
        "last_write_ms": producer.last_write_ms,
        "reason": found.reason,
    }


def _hanging_text(found: list[HangingTransaction], now_ms: int) -> str:
    headings = ("TOPIC", "PARTITION", "PRODUCER ID", "EPOCH", "START OFFSET", "LAST WRITE", "AGO", "WHY IT HANGS")
    rows = []
    for producer, reason in found:
        last_ms = producer.last_write_ms
        times = ("-", "-") if last_ms is None else (time_text(last_ms), duration_text(max(0, now_ms - last_ms)))
        start = "-" if producer.open_since_offset is None else producer.open_since_offset
        rows.append((*producer.spot, producer.producer_id, producer.epoch, start, *times, reason))
    return columns(headings, rows)
