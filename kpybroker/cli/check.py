"""``kpybroker check``: what is wrong with the files of log directories, without a broker, and how to mend it."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from kpybroker.cli import checking
from kpybroker.cli.checking import CheckedDirectories, CheckTask
from kpybroker.cli.options import quiet_end, remote_store
from kpybroker.cli.tables import bytes_text, plural, printable
from kpystorage.checking.findings import DAMAGE, Finding

DAMAGED = 1
MARKS = {DAMAGE: ("DAMAGE", "red")}


@click.command("check")
@click.argument("paths", metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--repair", is_flag=True, help="Repair the files where that is possible; replaced files are renamed, never deleted."
)
@remote_store("The server.properties of a broker: its store is compared with the metadata in the directories, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(paths: tuple[str, ...], repair: bool, store: Path | None, as_json: bool) -> None:
    """Read log directories, all of a node, or the directory of one partition, and say what is wrong with the files.

    Nothing is changed without --repair. The exit code is 0 if nothing is wrong, 1 if something is, 2 for wrong usage.
    """
    chosen = [Path(part).absolute() for path in paths for part in path.split(",") if part]
    kinds = {_kind(path) for path in chosen}
    if (kinds == {"partition"} and len(chosen) > 1) or len(kinds) > 1:
        raise click.UsageError("name the log directories of one node, or the directory of one partition")
    if store is not None and kinds == {"partition"}:
        raise click.UsageError("--remote-store needs the log directories of a node, whose topics have its metadata")
    if repair and kinds == {"partition"} and checking.is_log_directory(chosen[0].parent):
        raise click.UsageError(f"--repair needs all of {chosen[0].parent}, whose checkpoints name this partition too")
    locked = [note for path in chosen if (note := checking.lock_note(str(path))) is not None]
    if repair and locked:
        raise click.UsageError(f"{locked[0].path}: a broker runs with this directory; stop it before --repair")
    with quiet_end():
        stored = [] if store is None else _stored(chosen, store)
        found = left = _look(chosen, is_partition=kinds == {"partition"})
        done: list[str] = []
        if repair:
            done = _repair(found)
            left = _look(chosen, is_partition=kinds == {"partition"})
        _show(locked + stored + found.findings, left, done, as_json=as_json)
    if _damages(left.findings + stored):
        raise SystemExit(DAMAGED)


def _kind(path: Path) -> str:
    try:
        if not path.is_dir():
            raise click.UsageError(f"{path} is no directory")
        if checking.is_partition_directory(path):
            return "partition"
        if checking.is_log_directory(path):
            return "log directory"
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    raise click.UsageError(f"{path} holds nothing that a Kafka broker wrote")


def _look(chosen: list[Path], *, is_partition: bool) -> CheckedDirectories:
    hidden = not sys.stderr.isatty()
    with click.progressbar(length=1, label="Reading", file=sys.stderr, show_pos=False, hidden=hidden) as bar:

        def total(size_bytes: int) -> None:
            bar.length = max(size_bytes, 1)

        def reached(size_bytes: int) -> None:
            bar.update(size_bytes - bar.pos)

        try:
            if not is_partition:
                return checking.check_directories([str(path) for path in chosen], reached, total)
            (path,) = chosen
            report = checking.check_partition(CheckTask(str(path), checking.facts_of(path), 0))
        except OSError as error:
            raise click.UsageError(f"{error.filename}: {error.strerror}") from None
    return CheckedDirectories(report.findings, 1, report.size_bytes, [], {report.directory: report})


def _stored(chosen: list[Path], config: Path) -> list[Finding]:
    from kpybroker.cli.stored_check import stored_findings

    return stored_findings([str(path) for path in chosen], config)


def _repair(found: CheckedDirectories) -> list[str]:
    from kpybroker.cli.mending import mend

    return mend(found)


def _damages(findings: Iterable[Finding]) -> int:
    return sum(each.level == DAMAGE for each in findings)


def _show(findings: Iterable[Finding], left: CheckedDirectories, done: list[str], *, as_json: bool) -> None:
    ordered = sorted(findings, key=lambda each: each.level)
    if as_json:
        document = {
            "partitions": left.partitions,
            "bytes": left.size_bytes,
            "findings": [each._asdict() for each in ordered],
            "repaired": done,
            "left": [each._asdict() for each in left.findings if each.level == DAMAGE] if done else None,
        }
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    for each in ordered:
        mark, colour = MARKS.get(each.level, ("note", "cyan"))
        remedy = f" (--repair: {each.remedy})" if each.remedy and not done else ""
        click.echo(f"{click.style(mark, fg=colour)}  {printable(f'{each.path}: {each.text}{remedy}')}")
    for line in done:
        click.echo(f"{click.style('repaired', fg='green')}  {printable(line)}")
    damages, remaining = _damages(ordered), _damages(left.findings)
    what = f"{plural(left.partitions, 'partition')}, {bytes_text(left.size_bytes)}"
    reported = f"{plural(damages, 'damage')} found" if damages else "nothing is wrong"
    if done:
        reported += f", {remaining} left" if remaining else ", nothing is wrong any more"
        for each in left.findings:
            if each.level == DAMAGE:
                click.echo(f"{click.style('LEFT', fg='red')}  {printable(f'{each.path}: {each.text}')}")
    click.echo(f"{what}: {reported}.")
