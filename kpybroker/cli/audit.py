"""``kpybroker audit``: whether all data of a cluster is there, whole, in order, and the same on every replica."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpybroker.cli import command_config
from kpybroker.cli.options import NotReached, error_text, json_output, quiet_end, remote_store
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.tables import bytes_text, plural, printable, show_json
from kpybroker.machines.audit.findings import DAMAGE, AuditFinding

if TYPE_CHECKING:
    from kpybroker.machines.audit.kept import Summary
    from kpybroker.machines.audit.running import Result
    from kpybroker.machines.audit.sources import AuditSource
    from kpybroker.machines.audit.tables import TableRange
    from kpybroker.machines.audit.work import Mapped
    from kpybroker.pipeline.audit.equality import Equality
    from kpybroker.pipeline.audit.mirroring import Mirroring

DAMAGED = 1
MIB = 1 << 20
MARKS = {DAMAGE: ("DAMAGE", "red")}


@click.command("audit")
@click.argument("paths", metavar="[DIR]...", nargs=-1)
@click.option("-b", "--bootstrap-server", "server", metavar="HOST:PORT", help="A running cluster, not directories.")
@command_config.option
@remote_store("The server.properties of a broker: what its store has of tiered topics is read, too.")
@click.option("--all-replicas", is_flag=True, help="With a cluster: ask every replica, and not only the leaders.")
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only this topic; repeat it for several.")
@click.option("--deep", is_flag=True, help="Take the SHA-256 of every byte, and not only of headers with checksums.")
@click.option("--keys", is_flag=True, help="Check that compacted logs have each key once. Reads all their records.")
@click.option("--mirror", metavar="DIR|HOST:PORT|FILE", help="Compare the records with this mirror's.")
@click.option("--mirror-prefix", metavar="TEXT", default="", help="What the mirror puts before the names of topics.")
@click.option("--any-offsets", is_flag=True, help="The mirror's records may have other offsets.")
@click.option(
    "--mirror-of",
    metavar="DIR|HOST:PORT|FILE",
    help="Prove that every batch equals that of this source, of which the audited cluster has a mirror. A FILE has the "
    "properties of Kafka's clients, bootstrap.servers among them.",
)
@click.option("--table", "tables", metavar="FILE", multiple=True, help="Compare a table's counts with the log.")
@click.option("--summary", metavar="FILE", help="Write what a later audit can begin from.")
@click.option("--since", metavar="FILE", help="Read only what is new since the audit that wrote this summary.")
@click.option("--arrow", metavar="FILE", help="Write the findings as an Arrow file, or as Parquet by its name.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="The number of processes. [default: processors]")
@json_output
def command(
    paths: tuple[str, ...],
    server: str | None,
    store: Path | None,
    all_replicas: bool,
    topics: tuple[str, ...],
    deep: bool,
    keys: bool,
    mirror: str | None,
    mirror_prefix: str,
    any_offsets: bool,
    mirror_of: str | None,
    tables: tuple[str, ...],
    summary: str | None,
    since: str | None,
    arrow: str | None,
    processes: int | None,
    as_json: bool,
) -> None:
    """Audit all data of log directories, of one broker or several, or of a running cluster.

    Checked are checksums, offsets without gaps, equal replicas below the high watermark, whole transactions, the
    sequences of producers, the files beside the logs, and the positions of groups. Brokers may run meanwhile.

    Nothing is changed. The exit code is 0 if nothing is wrong, 1 if something is, 2 for wrong usage, 3 if no broker
    answers.
    """
    from kpybroker.machines.audit.running import AuditScope
    from kpybroker.pipeline.audit.mapping import in_processes
    from kpybroker.pipeline.audit.mirroring import Mirroring

    if bool(paths) == bool(server):
        raise click.UsageError("name log directories, or a cluster with --bootstrap-server")
    if all_replicas and not server:
        raise click.UsageError("--all-replicas is for a cluster; directories are all read")
    if store is not None and server:
        raise click.UsageError("--remote-store is for directories; a cluster reads its store itself")
    if (any_offsets or mirror_prefix) and not mirror:
        raise click.UsageError("--any-offsets and --mirror-prefix belong to --mirror")
    if arrow is not None:
        _require_pyarrow()
    ranges = tuple(each for path in tables for each in _ranges(path))
    before = None if since is None else _summary(since)
    if before is not None and before.deep != deep:
        raise click.UsageError(f"{since} is of an audit {'with' if before.deep else 'without'} --deep")
    with quiet_end(), _one_line():
        source = _cluster(server, all_replicas=all_replicas) if server else _directories(paths, store)
        other = None if mirror is None else _side(mirror)
        origin = None if mirror_of is None else _side(mirror_of)
        spread = in_processes(processes if processes else source.processes)
        result = _run(source, AuditScope(topics, deep, keys, ranges, before), spread)
        compared = 0
        if other is not None:
            mirroring = Mirroring(other, mirror_prefix, any_offsets, topics)
            compared, result = _with_mirror(source, mirroring, result, spread)
        proof = None
        if origin is not None:
            several = processes or (1 if 1 in (source.processes, origin.processes) else 0)
            proof, result = _with_source(source, origin, topics, result, in_processes(several))
        if summary is not None:
            _write_summary(result, summary)
        if arrow is not None:
            _write_arrow(result, arrow)
        _show(result, compared, proof, as_json=as_json)
    if result.damages:
        raise SystemExit(DAMAGED)


@contextmanager
def _one_line() -> Iterator[None]:
    """Errors of the cluster and of files as click's one line."""
    from kpybroker.client.bad_property import BadProperty
    from kpybroker.client.connection import Unreachable
    from kpybroker.machines.audit.running import NoSuchTopic
    from kpybroker.machines.errors import KafkaError

    try:
        yield
    except NoSuchTopic as error:
        raise click.UsageError(str(error)) from None
    except KafkaError as error:
        raise click.ClickException(error_text(error)) from None
    except Unreachable as error:
        raise NotReached(str(error)) from None
    except BadProperty as error:
        raise click.UsageError(str(error)) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from None


def _cluster(server: str, *, all_replicas: bool) -> "AuditSource":
    from kpybroker.client.client import TIMEOUT_S, parse_servers
    from kpybroker.pipeline.audit.cluster import Cluster

    timeout_s, settings = TIMEOUT_S, None
    context = click.get_current_context()
    if command_config.path_of(context) is not None:
        from kpybroker.cli.client_settings import admin_settings

        timeout_s, settings = admin_settings(context)
    try:
        parse_servers(server, "PLAINTEXT" if settings is None else settings.protocol)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    return Cluster(server, timeout_s, settings, all_replicas=all_replicas)


def _directories(paths: tuple[str, ...], store: Path | None = None) -> "AuditSource":
    from kpybroker.cli import checking
    from kpybroker.pipeline.audit.directories import AuditedDirectories

    chosen = [Path(part).absolute() for path in paths for part in path.split(",") if part]
    for path in chosen:
        if not path.is_dir():
            raise click.UsageError(f"{path} is no directory")
        if not checking.is_log_directory(path):
            inside = checking.is_partition_directory(path)
            hint = f"; name {path.parent}, and --topic for one topic" if inside else ""
            raise click.UsageError(f"{path} is no log directory of a Kafka broker{hint}")
    directories = list(dict.fromkeys(map(str, chosen)))
    if store is None:
        return AuditedDirectories(directories)
    from kpybroker.pipeline.audit.tiered import TieredDirectories
    from kpybroker.pipeline.tiers.stores import BadStore, store_of_file

    try:
        opened = store_of_file(store)
        opened.opened()
    except BadStore as error:
        raise click.UsageError(str(error)) from None
    return TieredDirectories(directories, opened)


def _side(place: str) -> "AuditSource":
    """The other side of a mirror, by its directory, its address, or a file of properties."""
    path = Path(place)
    if not path.is_file():
        return _directories((place,)) if path.exists() else _cluster(place, all_replicas=False)
    from kpybroker.client.bad_property import BadProperty
    from kpybroker.config.properties import read_properties
    from kpybroker.machines.config_def import ConfigError
    from kpybroker.pipeline.audit.cluster import Cluster

    try:
        return Cluster.of_properties({name: each.value for name, each in read_properties(path).items()})
    except (BadProperty, ConfigError) as error:
        raise click.UsageError(f"{path}: {error}") from None


def _run(source: "AuditSource", wanted: Any, spread: "Mapped") -> "Result":
    from kpybroker.machines.audit.running import audit

    with ProgressLine("Read", "MiB") as progress:
        return audit(source, wanted, spread, lambda size: progress.reached(size // MIB), _totals(progress))


def _totals(progress: ProgressLine) -> Any:
    def total(size_bytes: int) -> None:
        progress.total = size_bytes // MIB

    return total


def _with_mirror(
    source: "AuditSource", wanted: "Mirroring", result: "Result", spread: "Mapped"
) -> tuple[int, "Result"]:
    from kpybroker.pipeline.audit.mirroring import compare

    with ProgressLine("Compared", "MiB") as progress:
        count, found = compare(source, wanted, spread, lambda size: progress.reached(size // MIB), _totals(progress))
    return count, result._replace(findings=sorted([*result.findings, *found], key=lambda each: each.level))


def _with_source(
    mirror: "AuditSource", source: "AuditSource", topics: tuple[str, ...], result: "Result", spread: "Mapped"
) -> tuple["Equality", "Result"]:
    from kpybroker.pipeline.audit.equality import prove

    with ProgressLine("Compared", "MiB") as progress:
        proof = prove(mirror, source, topics, spread, lambda size: progress.reached(size // MIB), _totals(progress))
    return proof, result._replace(findings=sorted([*result.findings, *proof.findings], key=lambda each: each.level))


def audited(server: str, topics: tuple[str, ...]) -> "Result":
    """The result of an audit of all replicas of topics of a cluster; errors become click's one line."""
    from kpybroker.machines.audit.running import AuditScope
    from kpybroker.pipeline.audit.mapping import in_processes

    with quiet_end(), _one_line():
        source = _cluster(server, all_replicas=True)
        return _run(source, AuditScope(topics), in_processes(source.processes))


# Files.


def _summary(path: str) -> "Summary":
    from kpybroker.machines.audit.kept import BadSummary, from_json

    try:
        return from_json(Path(path).read_text())
    except (BadSummary, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} {error}") from None
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None


def _write_summary(result: "Result", path: str) -> None:
    """Replace the file as a whole: the next audit depends on it."""
    from kpybroker.machines.audit.kept import to_json

    target = Path(path)
    part = target.with_name(target.name + ".part")
    part.write_text(to_json(result.summary))
    part.replace(target)


def _require_pyarrow() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise click.UsageError("--arrow needs pyarrow: pip install kpybroker[audit]")


def _write_arrow(result: "Result", path: str) -> None:
    from kpybroker.pipeline.audit.arrow import write

    write(result.findings, path)


def _ranges(path: str) -> list["TableRange"]:
    """The ranges in a file: ``{"table": NAME, "ranges": [{"topic", "partition", "start", "end", "rows"}, ...]}``."""
    from kpybroker.machines.audit.tables import TableRange

    try:
        document = json.loads(Path(path).read_text())
        name = str(document["table"])
        return [
            TableRange(
                name,
                str(each["topic"]),
                int(each["partition"]),
                int(each["start"]),
                int(each["end"]),
                int(each["rows"]),
            )
            for each in document["ranges"]
        ]
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        wanted = '{"table": NAME, "ranges": [{"topic", "partition", "start", "end", "rows"}, ...]}'
        raise click.UsageError(f"{path} is not {wanted}: {type(error).__name__} {error}") from None


# Output.


def _show(result: "Result", mirrored: int, proof: "Equality | None", *, as_json: bool) -> None:
    if as_json:
        document = {name: value for name, value in result._asdict().items() if name not in ("findings", "summary")}
        document["damages"] = result.damages
        document["mirrored"] = mirrored
        if proof is not None:
            counts = {"partitions": proof.partitions, "equal": proof.equal, "batches": proof.batches}
            document["equal_to_source"] = counts
        document["roots"] = result.summary.roots()
        document["findings"] = [each._asdict() for each in result.findings]
        show_json(document)
        return
    for each in result.findings:
        click.echo(_line(each))
    click.echo(summary_line(result, mirrored, proof))


def _line(finding: AuditFinding) -> str:
    mark, colour = MARKS.get(finding.level, ("note", "cyan"))
    return f"{click.style(mark, fg=colour)}  {printable(finding.line)}"


def summary_line(result: "Result", mirrored: int = 0, proof: "Equality | None" = None) -> str:
    """The result in one line."""
    parts = [plural(result.partitions, "partition")]
    if result.most_replicas > 1:
        parts.append(plural(result.most_replicas, "replica"))
    parts += [bytes_text(result.size_bytes), plural(result.records, "record")]
    claims = []
    if result.read_bytes < result.size_bytes:
        claims.append(f"{bytes_text(result.read_bytes)} of it new")
    if result.compared:
        claims.append(f"equal below the high watermark: {result.equal} of {result.compared}")
    if result.whole_transactions or result.torn_transactions:
        claims.append(f"{plural(result.whole_transactions, 'transaction')} whole, {result.torn_transactions} torn")
    if result.pending_transactions:
        claims.append(f"{result.pending_transactions} being ended")
    if result.positions:
        claims.append(f"{plural(result.positions, 'position')} of groups")
    if result.ranges:
        claims.append(f"{plural(result.ranges, 'range')} of tables")
    if mirrored:
        claims.append(f"{plural(mirrored, 'partition')} of the mirror")
    if proof is not None:
        batches = f"{proof.batches} batch{'es' * (proof.batches != 1)}"
        claims.append(f"equal to the source: {proof.equal} of {proof.partitions}, {batches}")
    claims.append(f"{plural(result.damages, 'damage')} found" if result.damages else "nothing is wrong")
    return f"{', '.join(parts)}: {'; '.join(claims)}."
