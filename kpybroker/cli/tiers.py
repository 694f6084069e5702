"""``kpybroker tiers``: what of tiered topics is where, how far copies are behind, what it costs, and whether the store
has what the metadata say."""

import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.tables import bytes_text, columns, duration_text, plural, printable, show_json
from kpybroker.cli.tier_proof import TierBounds
from kpybroker.cli.tier_report import PartitionTiers, Prices, cost_of, partition_tiers, worst_first
from kpybroker.client import tier_requests
from kpybroker.client.client import EARLIEST_TIMESTAMP, Client, Spot
from kpybroker.client.epoch_requests import EpochHistory, epoch_histories
from kpybroker.hosts.remote_log.metadata_values import read_value
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import copies
from kpybroker.machines.remote_log.segments import RemotePartitionDelete, RemotePartitionDeleteState
from kpywire.errors import Malformed

S3_STANDARD: Final = Prices(gb_month=0.023, writes_1000=0.005)
"""The list prices of S3 Standard in us-east-1, in USD."""
GONE: Final = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

Scoped = tuple[tuple[str, tuple[int, ...]], ...]
Metadata = dict[tuple[bytes, int], RemoteSegments]


@click.group(name="tiers", cls=Commands)
def command() -> None:
    """Show what of tiered topics is in the store, and compare the store with the metadata."""


@command.command()
@click.argument("topics", metavar="[TOPIC[:0,1]]...", nargs=-1, callback=scope_of, shell_complete=completion.topics)
@click.option(
    "--price-gb-month",
    type=click.FloatRange(0),
    default=S3_STANDARD.gb_month,
    show_default=True,
    metavar="PRICE",
    help="The price of a GiB for a month.",
)
@click.option(
    "--price-1000-writes",
    type=click.FloatRange(0),
    default=S3_STANDARD.writes_1000,
    show_default=True,
    metavar="PRICE",
    help="The price of 1000 writes.",
)
@json_output
@bootstrap_server
def show(topics: Scoped, price_gb_month: float, price_1000_writes: float, as_json: bool, server: str) -> None:
    """Show the tiers of partitions, those with the oldest unfinished copies and the longest lag first.

    Without TOPIC: of all tiered topics. This works with any Kafka that has tiered storage; the metadata are read from
    __remote_log_metadata. The default prices are those of S3 Standard in us-east-1, in USD. Reads are not in the cost:
    brokers count them in their metrics.
    """
    prices = Prices(price_gb_month, price_1000_writes)
    with connected(server) as client:
        rows, plain = _rows(client, topics)
    if as_json:
        cost = cost_of(rows, prices)
        costs = {**prices._asdict(), **cost._asdict(), "month": cost.month}
        show_json({"partitions": [row._asdict() for row in rows], "not_tiered": plain, "cost": costs})
        return
    for name in plain:
        click.echo(f"{printable(name)} is not tiered: remote.storage.enable is false.", err=True)
    if rows:
        _show_table(rows, prices)
    elif not plain:
        click.echo("No topic is tiered.", err=True)


def _rows(client: Client, topics: Scoped) -> tuple[list[PartitionTiers], list[str]]:
    """The reports of the partitions, and the names of topics that are not tiered."""
    found = {each.name: each for each in tier_requests.topic_tiers(client, (name for name, _ in topics))}
    plain = [name for name, each in found.items() if not each.is_tiered]
    wanted = topics or tuple((name, ()) for name in found)
    spots = partitions_of(client, [each for each in wanted if each[0] not in plain])
    offsets = tier_requests.boundaries(client, spots)
    sizes = tier_requests.local_bytes(client, spots)
    metadata = read_metadata(client) if spots else {}
    now_ms = time.time_ns() // 1_000_000
    rows = [
        partition_tiers(
            spot,
            offsets[spot],
            metadata.get((client.topic(spot.topic).topic_id, spot.partition)),
            sizes.get(spot),
            is_copy_disabled=found[spot.topic].is_copy_disabled,
            now_ms=now_ms,
        )
        for spot in spots
    ]
    return worst_first(rows), plain


class CheckedPartition(NamedTuple):
    """A partition of a tiered topic, and what must be in the store of it."""

    spot: Spot
    is_compacted: bool
    segments: RemoteSegments
    epochs: EpochHistory
    bounds: TierBounds


def _tiered_partitions(client: Client) -> tuple[list[CheckedPartition], Metadata]:
    """The partitions of all tiered topics, and all metadata."""
    tiers = {each.name: each for each in tier_requests.topic_tiers(client)}
    spots = partitions_of(client, [(name, ()) for name in tiers]) if tiers else []
    on_disk = client.list_offsets(dict.fromkeys(spots, tier_requests.EARLIEST_LOCAL_TIMESTAMP))
    metadata = read_metadata(client)
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    histories = epoch_histories(client, starts) if spots else {}
    found = []
    for spot in spots:
        key = client.topic(spot.topic).topic_id, spot.partition
        segments = metadata.get(key) or RemoteSegments(key[0], *spot)
        bounds = TierBounds(starts[spot], on_disk[spot])
        found.append(CheckedPartition(spot, tiers[spot.topic].is_compacted, segments, histories[spot], bounds))
    return found, metadata


def read_metadata(client: Client) -> Metadata:
    """The segments of all partitions, of those that are deleted or not known otherwise, too. Records that cannot be
    read are left out, and counted in one line."""
    found: Metadata = {}
    unread = 0
    for _spot, _offset, value in tier_requests.metadata_values(client):
        try:
            record = read_value(value or b"")
        except Malformed:
            unread += 1
            continue
        if isinstance(record, RemotePartitionDelete):
            if record.state is GONE:
                found[record.topic_id, record.partition] = RemoteSegments(
                    record.topic_id, record.topic, record.partition
                )
            continue
        key = (record.id.topic_id, record.id.partition)
        if key not in found:
            found[key] = RemoteSegments(*record.id[:3])
        found[key].apply(record)
    if unread:
        click.echo(f"{plural(unread, 'record')} of the metadata cannot be read and are left out.", err=True)
    return found


def _show_table(rows: Sequence[PartitionTiers], prices: Prices) -> None:
    headings = (
        *("TOPIC", "PARTITION", "LOG START", "ON DISK FROM", "LAST COPIED", "END", "NOT COPIED"),
        *("ON DISK", "IN STORE", "SEGMENTS", "UNFINISHED", "NOTE"),
    )
    click.echo(columns(headings, [_cells(row) for row in rows]))
    cost = cost_of(rows, prices)
    stored = bytes_text(sum(row.remote_bytes for row in rows))
    click.echo(
        f"\n{plural(len(rows), 'partition')}, {stored} in the store, {sum(row.behind for row in rows)} records not "
        f"copied yet.\nCost per month: {cost.month:.2f} = {cost.storage_month:.2f} for storage at {prices.gb_month:g} "
        f"per GiB + {cost.writes_month:.2f} for the writes of the last 30 days at {prices.writes_1000:g} per 1000."
    )


def _cells(row: PartitionTiers) -> Sequence[object]:
    return (
        row.topic,
        row.partition,
        row.log_start,
        row.local_start,
        row.last_tiered if row.last_tiered >= 0 else "-",
        row.end,
        row.behind,
        "-" if row.local_bytes is None else bytes_text(row.local_bytes),
        bytes_text(row.remote_bytes),
        sum(row.states.values()),
        "-" if row.unfinished_ms is None else f"for {duration_text(row.unfinished_ms)}",
        row.note,
    )


@command.command()
@click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--read", "reads_all", is_flag=True, help="Read all segments, and check the CRC of every batch.")
@json_output
@bootstrap_server
def check(config: Path, reads_all: bool, as_json: bool, server: str) -> None:
    """Compare the objects of the store with the metadata. CONFIG is the server.properties of a broker.

    Missing objects, logs of a wrong size, offsets that neither a disk nor the store has and, with --read, damaged
    records are reported with exit code 4; so are, in compacted topics, records that a pass of compaction should have
    dropped. Objects that belong to nothing, and copies and deletions that have not ended, are reported and are no
    failure. Nothing is changed.
    """
    from kpybroker.cli.tier_store import keys_of, opened_store, problem_of

    with opened_store(config) as (storage, is_plain):
        from kpybroker.cli.tier_check import compare, read_all
        from kpybroker.cli.tier_proof import superseded, uncovered

        listing = list(storage.listed())
        with connected(server) as client:
            tiered, metadata = _tiered_partitions(client)
        compared = compare(listing, metadata, is_plain=is_plain)
        findings = compared.findings
        for each in tiered:
            findings += uncovered(str(each.spot), each.segments, each.epochs, each.bounds)
        if reads_all:
            with click.progressbar(
                length=compared.segments, label="Reading", file=sys.stderr, hidden=not sys.stderr.isatty()
            ) as bar:
                findings += read_all(metadata, lambda segment: problem_of(storage, segment), lambda: bar.update(1))
            for each in tiered:
                ranges = list(copies(each.segments, each.epochs, each.bounds.log_start)) if each.is_compacted else []
                findings += superseded(ranges, partial(keys_of, storage))
    if as_json:
        show_json(
            {
                "segments": compared.segments,
                "objects": compared.objects,
                "bytes": compared.size_bytes,
                "findings": [each._asdict() for each in findings],
            }
        )
    else:
        _show_findings(compared.segments, compared.objects, compared.size_bytes, findings)
    if not compared.is_in_order:
        raise SystemExit(NOT_IN_ORDER)


def _show_findings(segments: int, objects: int, size_bytes: int, findings: Iterable[Any]) -> None:
    listed = list(findings)
    for each in listed:
        click.echo(printable(f"{each.kind:<10}  {each.place}: {each.text}"))
    reported = plural(len(listed), "finding") if listed else "nothing is wrong"
    parts = (plural(segments, "segment"), plural(objects, "object"), f"{bytes_text(size_bytes)} in the store")
    click.echo(f"{', '.join(parts)}: {reported}.")
