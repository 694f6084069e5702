"""``kpybroker dump-log``: print Kafka's files, in the format of kafka-dump-log."""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from kpybroker.cli import file_dump, log_dump, record_decoders
from kpybroker.cli.log_dump import DumpedBatch, DumpedRecord, FileTrouble
from kpybroker.cli.options import NOT_IN_ORDER, quiet_end
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.record_decoders import DECODERS, Decoder
from kpybroker.cli.tables import printable
from kpystorage import names, snapshot
from kpystorage.disk import Disk
from kpystorage.reading_disk import ReadingDisk

INDEXES = {
    names.OFFSET_INDEX: file_dump.offset_index,
    names.TIME_INDEX: file_dump.time_index,
    names.TRANSACTION_INDEX: file_dump.transaction_index,
}


class DumpOptions:
    """The parts of records to show."""

    def __init__(self, *, deep: bool, contents: bool, metadata: bool, decoder: Decoder | None, verify: bool) -> None:
        self.deep = deep or contents
        self.contents = contents
        self.metadata = metadata
        self.decoder = decoder
        self.verify = verify

    def decoder_for(self, path: Path) -> Decoder | None:
        """The decoder that was asked for, or else that of the topic whose directory the file is in."""
        if not self.contents:
            return None
        if self.decoder is not None:
            return self.decoder
        if path.suffix == snapshot.SUFFIX:
            return record_decoders.metadata
        directory = names.parse_partition_directory(path.absolute().parent.name)
        return DECODERS.get(directory[0], record_decoders.text) if directory else record_decoders.text


@click.command("dump-log")
@click.argument("paths", metavar="FILE...", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--files", metavar="FILE,FILE", help="The files, as in kafka-dump-log.")
@click.option("--deep-iteration", "deep", is_flag=True, help="Also print the records of batches.")
@click.option(
    "--print-data-log",
    "contents",
    is_flag=True,
    help="Also print keys and values of records; those of Kafka's own topics are decoded.",
)
@click.option(
    "--offsets-decoder", "decoder", flag_value="__consumer_offsets", help="Decode records as the state of groups."
)
@click.option(
    "--transaction-log-decoder",
    "decoder",
    flag_value="__transaction_state",
    help="Decode records as the state of transactions.",
)
@click.option(
    "--cluster-metadata-decoder", "decoder", flag_value="__cluster_metadata", help="Decode records as cluster metadata."
)
@click.option(
    "--share-group-state-decoder",
    "decoder",
    flag_value="__share_group_state",
    help="Decode records as the state of share groups.",
)
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with their segments, print only differences.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
def command(
    paths: tuple[Path, ...],
    files: str | None,
    deep: bool,
    contents: bool,
    decoder: str | None,
    skip_record_metadata: bool,
    verify_index_only: bool,
    as_json: bool,
) -> None:
    """Print segments, indexes, snapshots and checkpoints of Kafka's log directories, or whole directories of them.

    Indexes are compared with their segment. The exit code is 4 if anything is damaged.
    """
    chosen = [*paths, *(Path(name) for name in (files or "").split(",") if name)]
    if not chosen:
        raise click.UsageError("name the files to print")
    wanted = DECODERS[decoder] if decoder else None
    options = DumpOptions(
        deep=deep,
        contents=contents or wanted is not None,
        metadata=not skip_record_metadata,
        decoder=wanted,
        verify=True,
    )
    disk, troubles = ReadingDisk(), 0
    with quiet_end():
        for path in files_of(chosen):
            troubles += _print_file(disk, path, options, quiet=verify_index_only, as_json=as_json)
    if troubles:
        raise SystemExit(NOT_IN_ORDER)


def files_of(paths: Iterable[Path]) -> Iterator[Path]:
    """The files, and for a directory those in it that can be printed, by name."""
    for path in paths:
        if path.is_dir():
            yield from (each for each in sorted(path.iterdir()) if each.is_file() and _is_known(each))
        else:
            yield path


def _is_known(path: Path) -> bool:
    return path.name in file_dump.SMALL_FILES or path.suffix in (
        *names.SEGMENT_FILES,
        names.PRODUCER_SNAPSHOT,
        snapshot.SUFFIX,
    )


def _print_file(disk: Disk, path: Path, options: DumpOptions, *, quiet: bool, as_json: bool) -> int:
    """Print one file. Return how much is wrong with it. click.ClickException if it cannot be read."""
    if not as_json:
        click.echo(f"Dumping {path}")
        if path.suffix == names.LOG and not quiet:
            click.echo(f"Log starting offset: {_base_offset(path)}")
    troubles = 0
    with ProgressLine(f"Read of {path.name}", "byte", path.stat().st_size) as progress:
        for found in _read(disk, path, options):
            if isinstance(found, FileTrouble):
                troubles += 1
                click.echo(f"{path}: {found.text}", err=True)
            elif not quiet:
                click.echo(_line(path, found, options, as_json=as_json))
            if isinstance(found, DumpedBatch) and not sys.stdout.isatty():
                progress.reached(found.position)
    return troubles


def _read(
    disk: Disk, path: Path, options: DumpOptions
) -> Iterator[DumpedBatch | DumpedRecord | FileTrouble | dict[str, Any]]:
    try:
        yield from contents_of(disk, path, options)
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from None


def contents_of(
    disk: Disk, path: Path, options: DumpOptions
) -> Iterator[DumpedBatch | DumpedRecord | FileTrouble | dict[str, Any]]:
    """The contents of a file, by its name. click.UsageError for a name that none of Kafka's files has."""
    name = str(path.absolute())
    if path.suffix in INDEXES:
        return INDEXES[path.suffix](disk, name, _base_offset(path), verify=options.verify)
    if path.suffix == names.PRODUCER_SNAPSHOT:
        return file_dump.producers(disk, name)
    if path.name in file_dump.SMALL_FILES:
        return file_dump.small_file(disk, name)
    if path.suffix in (names.LOG, snapshot.SUFFIX):
        file = disk.file(name)
        return log_dump.dump(file, file.size(), deep=options.deep, decoder=options.decoder_for(path))
    raise click.UsageError(f"{path} is none of Kafka's files")


def _line(
    path: Path, found: DumpedBatch | DumpedRecord | dict[str, Any], options: DumpOptions, *, as_json: bool
) -> str:
    if isinstance(found, DumpedBatch):
        shown, line = log_dump.batch_dict(found), log_dump.batch_line(found)
    elif isinstance(found, DumpedRecord):
        shown, line = log_dump.entry_dict(found), log_dump.entry_line(found, metadata=options.metadata)
    else:
        kind = path.name if path.name in file_dump.SMALL_FILES else path.suffix.removeprefix(".")
        shown, line = {"kind": kind, **found}, file_dump.row_line(found)
    if as_json:
        return json.dumps({"file": str(path), **shown}, ensure_ascii=False)
    return printable(line) if sys.stdout.isatty() else line


def _base_offset(path: Path) -> int:
    parsed = names.parse_segment_file(path.name)
    if parsed is None:
        raise click.UsageError(f"{path} is not named by an offset, as Kafka's segments are")
    return parsed[0]
