"""``kpybroker backup``: backups of any cluster in a directory or a bucket, and log directories restored from them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import click

from kpybroker.cli import command_config
from kpybroker.cli.options import Command, NotReached, bootstrap_server, error_text, json_output, quiet_end
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.start_positions import milliseconds
from kpybroker.cli.tables import bytes_text, columns, plural, printable, show_json, time_text

if TYPE_CHECKING:
    from kpybroker.client.client import Client
    from kpybroker.machines.backup.manifest import RunManifest
    from kpybroker.pipeline.backup.store import BackupStore

DAMAGED: Final = 1
MIB: Final = 1 << 20
LATEST: Final = "latest"
FOR_EVER: Final = (1 << 63) - 1


@click.group(name="backup")
def command() -> None:
    """Back a cluster up to a directory or a bucket, byte for byte, and restore it as of an earlier time.

    Each run writes what is new since the one before. A run counts once its manifest is written, which is done last.
    """


def _store_options(option: str) -> Callable[[Command], Command]:
    """The place of the backup; the command gets ``place`` and ``store_config``."""

    def with_options(command: Command) -> Command:
        config = click.option(
            "--store-config",
            "store_config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="The rsm.config.storage configs of the bucket, as of tiered storage.",
        )
        place = click.option(
            option, "place", required=True, metavar="DIR|URL", help="A directory or s3://BUCKET/PREFIX."
        )
        return place(config(command))

    return with_options


@command.command()
@_store_options("--to")
@click.option(
    "--topics",
    "patterns",
    multiple=True,
    default=("*",),
    show_default=True,
    metavar="PATTERN",
    help="A topic; * stands for any characters. Repeatable.",
)
@json_output
@bootstrap_server
def create(place: str, store_config: Path | None, patterns: tuple[str, ...], as_json: bool, server: str) -> None:
    """Write a run: the cluster as it is when the run begins."""
    from kpybroker.pipeline.backup.creating import create as write_run

    connect = _connecting(server)
    with _opened(place, store_config, is_made=True) as store, _Counted("Backed up") as progress:
        manifest = write_run(connect, store, patterns, _now_ms, progress.add)
    if as_json:
        show_json(_as_json(manifest))
        return
    for note in manifest.notes:
        click.echo(f"{click.style('note', fg='cyan')}  {printable(note)}")
    partitions = sum(len(topic.partitions) for topic in manifest.topics)
    counts = ((len(manifest.topics), "topic"), (partitions, "partition"), (len(manifest.groups), "group"))
    what = ", ".join(plural(*each) for each in counts)
    size, new = bytes_text(manifest.size_bytes), bytes_text(manifest.new_bytes)
    click.echo(f"Run {manifest.run}: {what}, {size}, {new} of it new.")


@command.command("list")
@_store_options("--from")
@json_output
def list_runs(place: str, store_config: Path | None, as_json: bool) -> None:
    """List the runs of a backup."""
    with _opened(place, store_config) as store:
        manifests = [store.manifest(run) for run in store.runs()]
    if as_json:
        show_json([_as_json(each) for each in manifests])
        return
    rows = [
        (
            each.run,
            time_text(each.cut_ms),
            len(each.topics),
            len(each.groups),
            bytes_text(each.size_bytes),
            bytes_text(each.new_bytes),
        )
        for each in manifests
    ]
    click.echo(columns(("RUN", "CUT", "TOPICS", "GROUPS", "SIZE", "NEW"), rows))


@command.command()
@_store_options("--from")
@json_output
def check(place: str, store_config: Path | None, as_json: bool) -> None:
    """Read every object of a backup, and compare it with its checksum and the CRC of its batches.

    The exit code is 0 if nothing is wrong, 1 if something is.
    """
    from kpybroker.pipeline.backup.checking import check as read_all

    with _opened(place, store_config) as store, _Counted("Read") as progress:
        result = read_all(store, progress.add)
    if as_json:
        show_json(result._asdict())
    else:
        for each in result.damages:
            click.echo(f"{click.style('DAMAGE', fg='red')}  {printable(each)}")
        verdict = f"{plural(len(result.damages), 'damage')} found" if result.damages else "nothing is wrong"
        read = f"{plural(result.runs, 'run')}, {plural(result.pieces, 'object')}, {bytes_text(result.size_bytes)}"
        click.echo(f"{read}: {verdict}.")
    if result.damages:
        raise SystemExit(DAMAGED)


def _time_of(_context: click.Context, _option: click.Parameter, text: str) -> int:
    return FOR_EVER if text == LATEST else milliseconds(text)


@command.command()
@_store_options("--from")
@click.option(
    "--at",
    "time_ms",
    default=LATEST,
    show_default=True,
    callback=_time_of,
    metavar="TIME",
    help="The last run whose cut is not after this time: 2026-01-31T12:00, or milliseconds.",
)
@click.option(
    "--by-timestamps",
    is_flag=True,
    help="With --at: what the run after that one has up to the time, too, by the timestamps of batches.",
)
@click.option("--to", "target", required=True, metavar="DIR", help="The log directory to write; it has to be empty.")
@click.option(
    "-c",
    "--config",
    "properties",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The server.properties of the node: its node.id and controller listener count. [default: a node by itself]",
)
def restore(
    place: str,
    store_config: Path | None,
    time_ms: int,
    by_timestamps: bool,
    target: str,
    properties: Path | None,
) -> None:
    """Write the log directory of a single node from a run, which kpybroker and Apache Kafka open."""
    from kpybroker.pipeline.backup.restoring import RestoreTarget, at_time, config_of
    from kpybroker.pipeline.backup.restoring import restore as write_directory

    with _opened(place, store_config) as store, _Counted("Restored") as progress:
        manifest = at_time(store, time_ms, by_timestamps=by_timestamps)
        if manifest is None:
            when = "" if time_ms == FOR_EVER else f" whose cut is not after {time_text(time_ms)}"
            raise click.ClickException(f"{store.name} has no run{when}")
        progress.line.total = manifest.size_bytes // MIB
        path = str(Path(target).absolute())
        write_directory(
            store, manifest, RestoreTarget(path, config_of(properties, path)), _now_ms(), _report, progress.add
        )
    for note in manifest.notes:
        click.echo(f"{click.style('note', fg='cyan')}  {printable(note)}")
    click.echo(f"Restored the cluster of {time_text(manifest.cut_ms)} into {target}: start a node with it.")


class _Counted:
    """A line of progress in MiB, for several threads."""

    def __init__(self, verb: str) -> None:
        self.line = ProgressLine(verb, "MiB")
        self._lock = Lock()
        self._size_bytes = 0

    def __enter__(self) -> "_Counted":
        self.line.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.line.__exit__(*error)

    def add(self, size_bytes: int) -> None:
        """Note that these bytes are done."""
        with self._lock:
            self._size_bytes += size_bytes
            self.line.reached(self._size_bytes // MIB)


def _connecting(server: str) -> "Callable[[], Client]":
    """A function that makes clients of the cluster, with the settings of ``--command-config``."""
    from kpybroker.client.client import TIMEOUT_S, Client

    context = click.get_current_context()
    timeout_s, settings = TIMEOUT_S, None
    if command_config.path_of(context) is not None:
        from kpybroker.cli.client_settings import admin_settings

        server = command_config.server_of(context, server)
        timeout_s, settings = admin_settings(context)
    try:
        Client(server, timeout_s, settings).close()
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    return lambda: Client(server, timeout_s, settings)


@contextmanager
def _opened(place: str, store_config: Path | None, *, is_made: bool = False) -> "Iterator[BackupStore]":
    """The store of a backup. Errors inside become click's one line."""
    from kpybroker.client.bad_property import BadProperty
    from kpybroker.client.connection import Unreachable
    from kpybroker.hosts.quorum.recovery import StartRefused
    from kpybroker.hosts.remote_log.remote_storage import StoreFailed
    from kpybroker.machines.backup.manifest import BadManifest
    from kpybroker.machines.config_def import ConfigError
    from kpybroker.machines.errors import KafkaError
    from kpybroker.machines.metadata.chosen_levels import FormatRefused
    from kpybroker.pipeline.backup.creating import AnotherCluster
    from kpybroker.pipeline.backup.store import DamagedPiece, open_backup
    from kpystorage.disk_errors import in_words
    from kpystorage.errors import DirectoryLocked, DiskFailure

    try:
        with quiet_end():
            store = open_backup(place, store_config, is_made=is_made)
            try:
                yield store
            finally:
                store.close()
    except (BadProperty, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    except KafkaError as error:
        raise click.ClickException(error_text(error)) from None
    except Unreachable as error:
        raise NotReached(str(error)) from None
    except (
        AnotherCluster,
        BadManifest,
        DamagedPiece,
        DirectoryLocked,
        DiskFailure,
        FormatRefused,
        StartRefused,
        StoreFailed,
    ) as error:
        raise click.ClickException(printable(str(error))) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(in_words(error)) from None


def _report(line: str) -> None:
    click.echo(printable(line), err=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _as_json(manifest: "RunManifest") -> dict[str, Any]:
    return {
        "run": manifest.run,
        "cut_ms": manifest.cut_ms,
        "finished_ms": manifest.finished_ms,
        "cluster_id": manifest.cluster_id,
        "topics": [topic.name for topic in manifest.topics],
        "groups": sorted(manifest.groups),
        "bytes": manifest.size_bytes,
        "new_bytes": manifest.new_bytes,
        "notes": list(manifest.notes),
    }
