"""``kpybroker lake``: topics as Delta and Iceberg tables, exactly once; docs/lake.md."""

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.contact import Contact, mute, say
from kpybroker.cli.options import NOT_IN_ORDER, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, show_json

if TYPE_CHECKING:
    from kpybroker.client.client import Client
    from kpybroker.lake.registry import Registry
    from kpybroker.lake.tables import Origin, Table
    from kpybroker.lake.target import Target
    from kpybroker.lake.topic import Topic
    from kpybroker.lake.values import Values

Command = Callable[..., Any]
MIB = 1024 * 1024


@click.group(name="lake", cls=Commands)
def command() -> None:
    """Keep topics as Delta or Iceberg tables, exactly once, and check that table = topic."""


def _pairs(_context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found = dict(text.partition("=")[::2] for text in texts)
    if any(not name or "=" not in text for name, text in zip(found, texts, strict=False)):
        raise click.BadParameter("write KEY=VALUE", param=option)
    return found


def table_options(command: Command) -> Command:
    """The options that say where a table is."""
    option = click.option(
        "--option",
        "options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_pairs,
        help="A setting of delta-rs' storage or of PyIceberg's catalog, such as uri=sqlite:///lake.db. Repeatable.",
    )
    catalog = click.option(
        "--catalog",
        default="default",
        show_default=True,
        metavar="NAME",
        help="The Iceberg catalog, as in PyIceberg's configuration.",
    )
    return option(catalog(command))


def registry_option(command: Command) -> Command:
    return click.option(
        "--schema-registry",
        metavar="URL",
        envvar="KPYBROKER_SCHEMA_REGISTRY",
        help="The registry of schemas, for --values avro and json-schema.",
    )(command)


@contextmanager
def _told() -> Iterator[None]:
    """Errors of the lake in one line."""
    try:
        from kpybroker.lake.errors import LakeError
    except ImportError as error:  # pragma: no cover
        raise _without_extra(error) from None
    try:
        yield
    except ImportError as error:
        raise _without_extra(error) from None
    except LakeError as error:
        raise click.ClickException(str(error)) from None


def _without_extra(error: ImportError) -> click.ClickException:
    return click.ClickException(f"{error.name} is not installed: pip install 'kpybroker[lake]'")


def _target(text: str, options: dict[str, str], catalog: str, file_bytes: int | None = None) -> "Target":
    from kpybroker.lake.target import FILE_BYTES, target_of

    try:
        return target_of(text, options, catalog, file_bytes or FILE_BYTES)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="TABLE") from None


def _existing(target: "Target") -> "tuple[Table, Origin]":
    """A table that kpybroker made. click.ClickException."""
    table = target.open()
    if table is None:
        raise click.ClickException(f"there is no table {target!r}")
    origin = table.origin()
    if origin is None:
        raise click.ClickException(f"table {target!r} was not made by kpybroker lake")
    return table, origin


def _registry(url: str | None) -> "Registry | None":
    if url is None:
        return None
    from kpybroker.lake.registry import Registry

    return Registry(url)


def _values(kind: str, url: str | None) -> "Values":
    from kpybroker.lake.formats import values_of

    return values_of(kind, _registry(url))


def _connect_like(client: "Client") -> "Callable[[], Client]":
    """A maker of clients with the settings of another one."""
    from kpybroker.client.client import Client

    servers = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in client.servers)
    return lambda: Client(servers, client.timeout_s, client.settings)


@contextmanager
def _topic(server: str, name: str, contact: Contact, **settings: Any) -> "Iterator[Topic]":
    from kpybroker.lake.topic import Topic

    with ExitStack() as stack:
        client = stack.enter_context(connected(server, contact=contact))
        topic = Topic(client, _connect_like(client), name, **settings)
        stack.callback(topic.close)
        yield topic


@command.command()
@click.argument("topic_name", metavar="TOPIC", shell_complete=completion.topics)
@click.argument("table_text", metavar="TABLE")
@click.option("--once", is_flag=True, help="End where the partitions end now, instead of following the topic.")
@click.option(
    "--mode",
    type=click.Choice(["append", "upsert"]),
    help="Rows are appended, or the last one of each key is kept. [default: append]",
)
@click.option("--values", "kind", metavar="FORMAT", help="bytes, json, avro or json-schema. [default: bytes]")
@registry_option
@click.option(
    "--backfill", is_flag=True, help="Begin a new table at both ends: follow the tail while older records are read."
)
@click.option(
    "--new-generation", is_flag=True, help="Go on behind the old rows if the topic was deleted and created again."
)
@click.option(
    "--partition-by", metavar="COLUMN", multiple=True, help="A column by which a new table is partitioned. Repeatable."
)
@click.option("--read-uncommitted", is_flag=True, help="Also write records of open and aborted transactions.")
@click.option("--skip-lost", is_flag=True, help="Go on behind offsets that retention or DeleteRecords took away.")
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
    default=5_000,
    show_default=True,
    metavar="MS",
    help="How long a record waits for a commit.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and the last line.")
@table_options
@bootstrap_server
def run(
    topic_name: str,
    table_text: str,
    once: bool,
    mode: str | None,
    kind: str | None,
    schema_registry: str | None,
    backfill: bool,
    new_generation: bool,
    partition_by: tuple[str, ...],
    read_uncommitted: bool,
    skip_lost: bool,
    parallel: int,
    commit_rows: int,
    commit_mib: int,
    commit_ms: int,
    quiet: bool,
    options: dict[str, str],
    catalog: str,
    server: str,
) -> None:
    """Write TOPIC into TABLE: delta:PATH or iceberg:NAMESPACE.TABLE. SIGTERM and Ctrl-C end it after a commit."""
    say_line = mute if quiet else say
    target = _target(table_text, options, catalog, commit_mib * MIB)
    stop = threading.Event()
    with _told(), _ending(stop), ExitStack() as stack:
        from kpybroker.lake import following
        from kpybroker.lake.generations import Wish, dead_letters_of, opened
        from kpybroker.lake.planning import Limits
        from kpybroker.lake.writing import Writer

        registry = _registry(schema_registry)
        settings = {"committed_only": not read_uncommitted, "fails_on_data_loss": not skip_lost, "parallel": parallel}
        topic = stack.enter_context(_topic(server, topic_name, Contact("waiting for it.", say_line), **settings))
        topic_id = topic.find()
        from kpybroker.lake.formats import values_of

        wish = Wish(mode, kind, new_generation, partition_by)
        table = opened(target, topic, topic_id, wish, lambda name: values_of(name, registry))
        origin = table.origin()
        assert origin is not None
        limits = Limits(commit_rows, commit_mib * MIB, commit_ms)
        values = values_of(origin.values, registry)
        dead_letters = partial(dead_letters_of, target, origin)
        writer = Writer(topic, topic_id, table, dead_letters, values, limits, random.getrandbits(62))
        taken_back = writer.take_over(target.dead_letters().open())
        if taken_back:
            say_line(f"{plural(taken_back, 'dead letter')} of a commit that did not follow were taken back.")
        writer.begin(backfill=backfill)
        commits = (
            following.once(writer, topic, stop) if once else following.follow(writer, topic, topic_id, stop, say_line)
        )
        rows = dead = number = 0
        for number, committed in enumerate(commits, 1):
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
@click.argument("topic_name", metavar="TOPIC", shell_complete=completion.topics)
@click.argument("table_text", metavar="TABLE")
@click.option("--read-uncommitted", is_flag=True, help="As the table was written.")
@json_output
@table_options
@bootstrap_server
def check(
    topic_name: str,
    table_text: str,
    read_uncommitted: bool,
    as_json: bool,
    options: dict[str, str],
    catalog: str,
    server: str,
) -> None:
    """Compare TABLE with TOPIC offset by offset, and print the numbers; exit code 4 if they differ."""
    target = _target(table_text, options, catalog)
    with _told(), _topic(server, topic_name, Contact("waiting for it."), committed_only=not read_uncommitted) as topic:
        from kpybroker.lake.checking import Check, as_text

        table, origin = _existing(target)
        topic_id = topic.find()
        if origin.topic != topic_name or topic_id not in origin.topic_ids:
            raise click.ClickException(f"table {target!r} holds topic {origin.topic} of other ids, not {topic_id}")
        check = Check(topic, topic_id, table, target.dead_letters().open(), origin.mode)
        counts = list(check.counts())
        holds = all(count.holds for count in counts)
        if as_json:
            found = [finding._asdict() for finding in check.findings]
            partitions = [{**count._asdict(), "holds": count.holds} for count in counts]
            show_json({"topic": topic_name, "holds": holds, "partitions": partitions, "findings": found})
        else:
            for count in counts:
                click.echo(as_text(origin.mode, count))
            for finding in check.findings:
                click.echo(f"{topic_name}-{finding.partition}, offset {finding.offset} {finding.what}")
            rows, dead = sum(count.rows for count in counts), sum(count.dead for count in counts)
            verdict = "table = topic" if holds else "table != topic"
            click.echo(f"{verdict}: {plural(rows, 'row')} and {plural(dead, 'dead letter')}")
    if not holds:
        raise SystemExit(NOT_IN_ORDER)


@command.command()
@click.argument("topic_name", metavar="TOPIC", shell_complete=completion.topics)
@click.argument("table_text", metavar="TABLE")
@registry_option
@table_options
@bootstrap_server
def replay(
    topic_name: str,
    table_text: str,
    schema_registry: str | None,
    options: dict[str, str],
    catalog: str,
    server: str,
) -> None:
    """Try the dead letters of TABLE again; those that fit become rows."""
    target = _target(table_text, options, catalog)
    with _told(), _topic(server, topic_name, Contact("waiting for it.")) as topic:
        from kpybroker.lake.replaying import replay as replayed

        table, origin = _existing(target)
        dead_letters = target.dead_letters().open()
        topic_id = topic.find()
        if topic_id not in origin.topic_ids:
            raise click.ClickException(f"table {target!r} holds other generations of topic {origin.topic} only")
        if dead_letters is None:
            click.echo("There are no dead letters.")
            return
        done = replayed(table, dead_letters, topic_id, _values(origin.values, schema_registry), origin.mode, topic)
    parts = [f"{plural(done.rows, 'dead letter')} became rows", f"{done.left} still do not fit"]
    if done.superseded:
        parts.append(f"{done.superseded} had later records of their keys")
    if done.already:
        parts.append(f"{done.already} were rows already")
    click.echo("; ".join(parts))


@command.command()
@click.argument("table_text", metavar="TABLE")
@json_output
@table_options
def show(table_text: str, as_json: bool, options: dict[str, str], catalog: str) -> None:
    """Show what TABLE holds: its topic, the offsets of each partition, dead letters and why. No broker is asked."""
    target = _target(table_text, options, catalog)
    with _told():
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
@click.argument("table_text", metavar="TABLE")
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
@table_options
def maintain(table_text: str, file_mib: int, keep_hours: int, options: dict[str, str], catalog: str) -> None:
    """Put small files of TABLE together, and delete what no kept version needs. A writer may go on."""
    target = _target(table_text, options, catalog)
    with _told():
        _existing(target)
        from kpybroker.lake.errors import NotCommitted

        for place in (target, target.dead_letters()):
            for attempt in range(5):
                table = place.open()
                if table is None:
                    break
                try:
                    click.echo(f"{place!r}: {table.compact(file_mib * MIB)}; {table.clean(keep_hours)}")
                    break
                except NotCommitted:
                    if attempt == 4:
                        raise
