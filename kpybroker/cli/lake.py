"""``kpybroker lake``: topics as Delta and Iceberg tables, exactly once; docs/lake.md."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpybroker.cli import Commands
from kpybroker.cli.contact import Contact, mute, say
from kpybroker.cli.lake_options import (
    old_records,
    one_line_errors,
    say_all_dead,
    schema_options,
    store_option,
    table_options,
    topic_argument,
)
from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, show_json

if TYPE_CHECKING:
    from kpybroker.client.client import Client
    from kpybroker.machines.lake.naming import NamingRule
    from kpybroker.pipeline.lake.tables import LakeTable, Origin
    from kpybroker.pipeline.lake.target import Target
    from kpybroker.pipeline.lake.topic import LakeTopic
    from kpybroker.pipeline.lake.values import Values

MIB = 1024 * 1024
REPEATS = 5


@click.group(name="lake", cls=Commands)
def command() -> None:
    """Keep topics as Delta or Iceberg tables, exactly once, and check that table = topic."""


def _existing(target: "Target") -> "tuple[LakeTable, Origin]":
    """A table that kpybroker made. click.ClickException."""
    table = target.open()
    if table is None:
        raise click.ClickException(f"there is no table {target!r}")
    origin = table.origin()
    if origin is None:
        raise click.ClickException(f"table {target!r} was not made by kpybroker lake")
    return table, origin


def _connect_like(client: "Client") -> "Callable[[], Client]":
    """A maker of clients with the settings of another one."""
    from kpybroker.client.client import Client

    servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in client.servers)
    return lambda: Client(servers, client.timeout_s, client.settings)


@contextmanager
def _topic(
    server: str, name: str, contact: Contact, store: Path | None = None, **settings: Any
) -> "Iterator[LakeTopic]":
    from kpybroker.pipeline.lake.topic import LakeTopic

    with ExitStack() as stack:
        client = stack.enter_context(connected(server, contact=contact))
        connect = _connect_like(client)
        if store is not None:
            settings["old"] = old_records(store, connect, committed_only=settings["committed_only"])
        topic = LakeTopic(client, connect, name, **settings)
        stack.callback(topic.close)
        yield topic


@command.command()
@topic_argument
@table_options
@click.option("--once", is_flag=True, help="End where the partitions end now, instead of following the topic.")
@click.option(
    "--mode",
    type=click.Choice(["append", "upsert"]),
    help="Rows are appended, or the last one of each key is kept. [default: append]",
)
@click.option("--values", "kind", metavar="FORMAT", help="bytes, json, avro, json-schema or protobuf. [default: bytes]")
@schema_options
@click.option(
    "--backfill", is_flag=True, help="Begin a new table at both ends: follow the tail while older records are read."
)
@click.option(
    "--new-generation", is_flag=True, help="Go on behind the old rows if the topic was deleted and created again."
)
@click.option(
    "--partition-by", metavar="COLUMN", multiple=True, help="A column by which a new table is partitioned. Repeatable."
)
@click.option("--with-headers", is_flag=True, help="A new table has the headers of records, in the column _headers.")
@click.option("--with-epoch", is_flag=True, help="A new table has the epoch of their leader, in the column _epoch.")
@click.option("--read-uncommitted", is_flag=True, help="Also write records of open and aborted transactions.")
@click.option(
    "--skip-lost",
    is_flag=True,
    help="Go on behind offsets that retention took away; delete rows that the log has lost.",
)
@click.option(
    "--parallel", type=click.IntRange(1, 64), default=2, show_default=True, metavar="N", help="Connections that read."
)
@click.option(
    "--commit-rows",
    type=click.IntRange(1),
    default=2_000_000,
    show_default=True,
    metavar="N",
    help="Rows in a commit, at most.",
)
@click.option(
    "--commit-mib",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    metavar="MIB",
    help="Keys and values in a commit, about; also the size of a file.",
)
@click.option(
    "--commit-ms",
    type=click.IntRange(0),
    default=3_000,
    show_default=True,
    metavar="MS",
    help="How long a record waits for a commit.",
)
@store_option
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and the last line.")
@bootstrap_server
def run(
    topic_name: str,
    target: "Target",
    store: Path | None,
    once: bool,
    mode: str | None,
    kind: str | None,
    values_of: "Callable[[str, NamingRule], Values]",
    backfill: bool,
    new_generation: bool,
    partition_by: tuple[str, ...],
    with_headers: bool,
    with_epoch: bool,
    read_uncommitted: bool,
    skip_lost: bool,
    parallel: int,
    commit_rows: int,
    commit_mib: int,
    commit_ms: int,
    quiet: bool,
    server: str,
) -> None:
    """Write TOPIC into TABLE: delta:PATH or iceberg:NAMESPACE.TABLE. SIGTERM and Ctrl-C end it after a commit."""
    say_line = mute if quiet else say
    target = target._replace(file_bytes=commit_mib * MIB)
    stop = threading.Event()
    with one_line_errors(), _ending(stop), ExitStack() as stack:
        from kpybroker.machines.lake.planning import CommitLimits
        from kpybroker.pipeline.lake import following
        from kpybroker.pipeline.lake.generations import WriteMode, dead_letters_of, opened
        from kpybroker.pipeline.lake.tables import EPOCH, HEADERS
        from kpybroker.pipeline.lake.values import sources
        from kpybroker.pipeline.lake.writing import GenerationWriter

        settings = {"committed_only": not read_uncommitted, "fails_on_data_loss": not skip_lost, "parallel": parallel}
        contact = Contact("waiting for it.", say_line)
        topic = stack.enter_context(_topic(server, topic_name, contact, store, **settings))
        topic_id = topic.find()
        extra = tuple(name for name, is_wanted in ((HEADERS, with_headers), (EPOCH, with_epoch)) if is_wanted)
        topic.extra = sources(extra)
        table = opened(target, topic, topic_id, WriteMode(mode, kind, new_generation, partition_by, extra), values_of)
        topic.extra = sources(table.schema().names)
        origin = table.origin()
        assert origin is not None
        limits = CommitLimits(commit_rows, commit_mib * MIB, commit_ms)
        dead_letters = partial(dead_letters_of, target, origin)
        number = random.getrandbits(62)
        writer = GenerationWriter(
            topic, topic_id, table, dead_letters, values_of(origin.values, target.rule), limits, number
        )
        taken_back = writer.take_over(target.dead_letters().open())
        if taken_back:
            say_line(f"{plural(taken_back, 'dead letter')} of a commit that did not follow were taken back.")
        writer.begin(backfill=backfill)
        commits = (
            following.once(writer, topic, stop, say_line)
            if once
            else following.follow(writer, topic, topic_id, stop, say_line)
        )
        rows = dead = number = 0
        for number, committed in enumerate(commits, 1):
            if committed.dead and not (committed.rows or rows or dead):
                say_all_dead(committed, target)
            rows, dead = rows + committed.rows, dead + committed.dead
            say_line(f"Commit {number}: {plural(committed.rows, 'row')}, {plural(committed.dead, 'dead letter')}.")
        click.echo(f"{plural(rows, 'row')} and {plural(dead, 'dead letter')} in {plural(number, 'commit')}")


@contextmanager
def _ending(stop: threading.Event) -> Iterator[None]:
    """Inside the block, SIGTERM and Ctrl-C set ``stop``; a second one ends at once."""

    def end(number: int, _frame: object) -> None:
        if stop.is_set():
            raise SystemExit(128 + number)
        stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@command.command()
@topic_argument
@table_options
@click.option("--read-uncommitted", is_flag=True, help="As the table was written.")
@store_option
@schema_options
@json_output
@bootstrap_server
def check(
    topic_name: str,
    target: "Target",
    store: Path | None,
    read_uncommitted: bool,
    values_of: "Callable[[str, NamingRule], Values]",
    as_json: bool,
    server: str,
) -> None:
    """Compare TABLE with TOPIC offset by offset, and print the numbers; exit code 4 if they differ.

    Keys, timestamps and values are compared, too: values of a schema registry or a schema where it is given.
    """
    with (
        one_line_errors(),
        _topic(server, topic_name, Contact("waiting for it."), store, committed_only=not read_uncommitted) as topic,
    ):
        from kpybroker.pipeline.lake.checking import NOT_COMPARED, TableCheck, as_text
        from kpybroker.pipeline.lake.formats import comparable

        table, origin = _existing(target)
        topic_id = topic.find()
        if origin.topic != topic_name or topic_id not in origin.topic_ids:
            raise click.ClickException(f"table {target!r} holds topic {origin.topic} of other ids, not {topic_id}")
        values = comparable(origin.values, lambda: values_of(origin.values, target.rule))
        check = TableCheck(topic, topic_id, table, target.dead_letters().open(), origin.mode, values)
        counts = list(check.counts())
        holds = all(count.holds for count in counts)
        if as_json:
            found = [finding._asdict() for finding in check.findings]
            partitions = [{**count._asdict(), "holds": count.holds} for count in counts]
            compared = {"values": values is not None}
            show_json(
                {"topic": topic_name, "holds": holds, "compared": compared, "partitions": partitions, "findings": found}
            )
        else:
            for count in counts:
                click.echo(as_text(origin.mode, count))
            for finding in check.findings:
                click.echo(f"{topic_name}-{finding.partition}, offset {finding.offset} {finding.what}")
            rows, dead = sum(count.rows for count in counts), sum(count.dead for count in counts)
            if values is None:
                click.echo(NOT_COMPARED)
            verdict = "table = topic" if holds else "table != topic"
            click.echo(f"{verdict}: {plural(rows, 'row')} and {plural(dead, 'dead letter')}")
    if not holds:
        raise SystemExit(NOT_IN_ORDER)


@command.command()
@topic_argument
@table_options
@schema_options
@bootstrap_server
def replay(
    topic_name: str,
    target: "Target",
    values_of: "Callable[[str, NamingRule], Values]",
    server: str,
) -> None:
    """Try the dead letters of TABLE again; those that fit become rows."""
    with one_line_errors(), _topic(server, topic_name, Contact("waiting for it.")) as topic:
        from kpybroker.pipeline.lake.replaying import replay as replayed

        table, origin = _existing(target)
        dead_letters = target.dead_letters().open()
        topic_id = topic.find()
        if topic_id not in origin.topic_ids:
            raise click.ClickException(f"table {target!r} holds other generations of topic {origin.topic} only")
        if dead_letters is None:
            click.echo("There are no dead letters.")
            return
        done = replayed(table, dead_letters, topic_id, values_of(origin.values, target.rule), origin.mode, topic)
    parts = [f"{plural(done.rows, 'dead letter')} became rows", f"{done.left} still do not fit"]
    if done.superseded:
        parts.append(f"{done.superseded} had later records of their keys")
    if done.already:
        parts.append(f"{done.already} were rows already")
    click.echo("; ".join(parts))


@command.command()
@table_options
@json_output
def show(target: "Target", as_json: bool) -> None:
    """Show what TABLE holds: its topic, the offsets of each partition, dead letters and why. No broker is asked."""
    with one_line_errors():
        table, origin = _existing(target)
        dead_letters = target.dead_letters().open()
        reasons: dict[str, int] = {}
        if dead_letters is not None:
            for topic_id in origin.topic_ids:
                for batch in dead_letters.rows(topic_id):
                    for reason in batch["_reason"].to_pylist():
                        reasons[reason] = reasons.get(reason, 0) + 1
        covered = {topic_id: table.covered(topic_id).coverage for topic_id in origin.topic_ids}
        rows = table.count()
    if as_json:
        offsets = {
            topic_id: {str(number): [list(lane) for lane in lanes] for number, lanes in each.items()}
            for topic_id, each in covered.items()
        }
        show_json({**origin._asdict(), "rows": rows, "offsets": offsets, "dead_letters": reasons})
        return
    click.echo(f"Topic {origin.topic}, mode {origin.mode}, values {origin.values}, {plural(rows, 'row')}")
    lines = [
        (topic_id, number, " ".join(f"[{lane.start}, {lane.end})" for lane in lanes))
        for topic_id, each in covered.items()
        for number, lanes in each.items()
    ]
    if lines:
        click.echo(columns(["TOPIC ID", "PARTITION", "OFFSETS"], lines))
    ranked = sorted(reasons.items(), key=lambda item: -item[1])
    if ranked:
        click.echo(columns(["DEAD LETTERS", "REASON"], [(number, reason) for reason, number in ranked[:20]]))


@command.command()
@table_options
@click.option(
    "--file-mib", type=click.IntRange(1), default=128, show_default=True, metavar="MIB", help="The size of files."
)
@click.option(
    "--keep-hours",
    type=click.IntRange(0),
    default=168,
    show_default=True,
    metavar="HOURS",
    help="How long older versions of the table can be read.",
)
def maintain(target: "Target", file_mib: int, keep_hours: int) -> None:
    """Put small files of TABLE together, and delete what no kept version needs. A writer may go on."""
    with one_line_errors():
        _existing(target)
        from kpybroker.pipeline.lake.errors import NotCommitted

        for place in (target, target.dead_letters()):
            for attempt in range(REPEATS):
                table = place.open()
                if table is None:
                    break
                try:
                    click.echo(f"{place!r}: {table.compact(file_mib * MIB)}; {table.clean(keep_hours)}")
                    break
                except NotCommitted:
                    if attempt == REPEATS - 1:
                        raise
