"""``kpybroker mirror``: mirrors of another cluster's topics, with equal offsets, and their failover."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from kpybroker.cli import mirror_adoption
from kpybroker.cli.mirror_adoption import exported_json
from kpybroker.cli.options import NOT_IN_ORDER, Command, NotReached, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, duration_text, plural, printable, show_json
from kpybroker.client import adoption_requests, mirror_progress, mirror_requests, mirrored_groups
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.client.mirror_requests import MirroredPartition, MirroredTopic
from kpybroker.client.sources import source_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.mirror import ACLS, QUOTAS, Mirror
from kpybroker.machines.mirror.progress import CutPart, Progress

LOOK_EVERY_S: Final = 0.5
TRANSACTIONS_WITHIN_S: Final = 30.0
CUT_WITHIN_S: Final = 60.0


@click.group(name="mirror")
def command() -> None:
    """Mirror topics of another cluster with equal offsets, and fail over to them.

    Each broker finds the source in the file NAME.properties of kpybroker.mirror.directory: properties of Kafka's
    clients, bootstrap.servers among them.
    """


def source_option(help_text: str) -> Callable[[Command], Command]:
    """``--source``: the file by which this command reaches the source."""
    path = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option("--source", "source", type=path, metavar="FILE", help=help_text)


def _named(command: Command) -> Command:
    return click.argument("name", metavar="NAME")(command)


@command.command()
@_named
@click.option(
    "--topics",
    "patterns",
    multiple=True,
    required=True,
    metavar="PATTERN",
    help="A topic of the source; * stands for any characters. Repeatable.",
)
@click.option(
    "--adopt",
    "adopts",
    is_flag=True,
    help="Topics that exist become mirrors, if the source has them with the same ids. Records that it lacks are "
    "exported to TOPIC.diverged-DATE, and only then cut off.",
)
@click.option(
    "--export-directory",
    "directory",
    type=click.Path(exists=True, file_okay=False, path_type=Path, resolve_path=True),
    metavar="DIR",
    help="With --adopt: export to files in this directory instead of topics.",
)
@click.option(
    f"--{ACLS}", ACLS, is_flag=True, help="Carry over the ACLs for these topics, groups and transactional ids."
)
@click.option(f"--{QUOTAS}", QUOTAS, is_flag=True, help="Carry over the quotas of users and client ids.")
@source_option("The client properties of the source; needed by --adopt.")
@bootstrap_server
def create(
    name: str,
    patterns: tuple[str, ...],
    adopts: bool,
    directory: Path | None,
    acls: bool,
    quotas: bool,
    source: Path | None,
    server: str,
) -> None:
    """Begin a mirror, or go on with one that was stopped.

    ACLs and quotas that were carried over are deleted here when they are deleted at the source. The passwords of SCRAM
    users cannot be read anywhere: create the users here, with `kpybroker users`.
    """
    if adopts and source is None:
        raise click.UsageError("--adopt needs --source, to compare with what the source has")
    mirror = Mirror(name, patterns, [*([ACLS] if acls else []), *([QUOTAS] if quotas else [])])
    with connected(server) as client, _source(source) as there:
        present = mirror_requests.mirrors(client)
        if name in present and present[name] != mirror:
            has = [f"the topics {' '.join(present[name].patterns)}", *present[name].carries]
            raise click.ClickException(f"mirror {name} exists: it has {' and '.join(has)}")
        adopted = adoption_requests.candidates(client, there, mirror) if adopts and there is not None else []
        mirror_requests.set_mirrors(client, {**present, name: mirror}.values())
        if adopted and there is not None:
            mirror_adoption.adopt(client, there, adopted, name, directory)
    joined = f" {plural(len(adopted), 'topic')} of this cluster joined it." if adopts else ""
    click.echo(f"Mirror {name} has begun.{joined}")


@command.command()
@_named
@bootstrap_server
def stop(name: str, server: str) -> None:
    """Stop a mirror: nothing is fetched. Its topics stay read-only, and `create` goes on with it."""
    with connected(server) as client:
        present = mirror_requests.mirrors(client)
        if name not in present:
            raise click.ClickException(f"there is no mirror {name}")
        del present[name]
        mirror_requests.set_mirrors(client, present.values())
    click.echo(f"Mirror {name} is stopped; its topics are read-only.")


@command.command()
@click.argument("name", metavar="[NAME]", required=False)
@source_option("The client properties of the source; with them lags are shown, and why a partition lags.")
@json_output
@bootstrap_server
def status(name: str | None, source: Path | None, as_json: bool, server: str) -> None:
    """Show how far partitions are mirrored, and why one is behind. The exit code is 4 if one is not fed."""
    with connected(server) as client, _source(source) as there:
        named = mirror_requests.mirrors(client)
        topics = mirror_requests.mirrored_topics(client, name)
        found = mirror_requests.partitions(client, topics, there, named)
        known = mirror_progress.ProgressReader(client).read()
    found = [mirror_progress.explained(each, topics, known) for each in found]
    owners = {topic.name: topic.mirror for topic in topics}
    if as_json:
        show_json(
            {
                "mirrors": {each.name: list(each.patterns) for each in named.values() if name in (None, each.name)},
                "partitions": [{"mirror": owners[each.spot.topic], **_as_json(each)} for each in found],
                "problems": {mirror: words.problem for mirror, words in known.words.items() if words.problem},
                "exported": [
                    exported_json(topic.name, topic.export, part) for topic in topics for part in topic.exported
                ],
            }
        )
    else:
        rows = [
            (owners[each.spot.topic], each.spot.topic, each.spot.partition, _shown(each.end), _shown(each.lag),
             each.reason or "-")
            for each in found
        ]  # fmt: skip
        click.echo(columns(("MIRROR", "TOPIC", "PARTITION", "END", "LAG", "REASON"), rows))
        mirror_adoption.report(
            {topic.name: topic.export for topic in topics}, {topic.name: topic.exported for topic in topics}
        )
        _report_problems(known)
    if any(each.reason not in ("", mirror_requests.FETCHING) and not each.is_waiting for each in found):
        raise SystemExit(NOT_IN_ORDER)


def _report_problems(known: Progress) -> None:
    for mirror, words in known.words.items():
        if words.problem:
            click.echo(f"Mirror {mirror}: {printable(words.problem)}")


@command.command()
@_named
@click.option("--now", "at_once", is_flag=True, help="Do not wait: what is not mirrored is lost.")
@click.option(
    "--wait-lag",
    "most_lag",
    type=click.IntRange(0),
    metavar="RECORDS",
    help="Wait until no partition lacks more records than that; 0 for none. Stop the producers before.",
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(0), default=300.0, show_default=True, metavar="SECONDS")
@source_option("The client properties of the source; needed by --wait-lag, and to say what is lost.")
@json_output
@bootstrap_server
def failover(
    name: str, at_once: bool, most_lag: int | None, timeout_s: float, source: Path | None, as_json: bool, server: str
) -> None:
    """End a mirror, and make its topics writable.

    What is mirrored is cut where every transaction is whole in all partitions, and transactions that are open there are
    aborted. The report says for each partition up to where it is
    mirrored and how much was cut off, and with --source how many records and how much time are lost.
    """
    if at_once == (most_lag is not None):
        raise click.UsageError("say --now or --wait-lag RECORDS")
    if most_lag is not None and source is None:
        raise click.UsageError("--wait-lag needs --source, to know what the source has")
    with connected(server) as client, _source(source, may_be_away=at_once) as there:
        topics = mirror_requests.mirrored_topics(client, name)
        present = mirror_requests.mirrors(client)
        if not topics and name not in present:
            raise click.ClickException(f"there is no mirror {name}")
        if most_lag is not None and there is not None:
            _wait(client, topics, there, present, most_lag, timeout_s)
        if name in present:  # from now on no topic is added
            del present[name]
            mirror_requests.set_mirrors(client, present.values())
            topics = mirror_requests.mirrored_topics(client, name)
        mirror_requests.stop_feeding(client, topics)
        cut = mirror_progress.wait_until_cut(client, topics, CUT_WITHIN_S)
        losses = _losses(client, topics, there, cut)
        _carry_groups(client, there, losses)
        aborted = mirror_requests.end_transactions(client, topics, TRANSACTIONS_WITHIN_S)
        mirror_requests.make_writable(client, topics)
        mirror_requests.forget_carried(client, name)
    _report(name, losses, aborted, as_json=as_json)


@command.command()
@_named
@click.option(
    "--directory",
    "directories",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="DIR",
    help="An empty or new directory for the fork, on the file system of the log directories. Repeatable, one for each "
    "file system.",
)
@click.option(
    "--log-dirs",
    "log_dirs",
    metavar="DIR,...",
    help="The log directories of the node, and its metadata.log.dir; by default those of the cluster's only broker on "
    "this machine.",
)
@click.option("--port", type=click.IntRange(1, 65534), default=19092, show_default=True, metavar="PORT",
              help="The fork's port; its controller has the next one.")  # fmt: skip
@bootstrap_server
def rehearse(name: str, directories: tuple[Path, ...], log_dirs: str | None, port: int, server: str) -> None:
    """Fork a node's log directories, so that a failover can be rehearsed while the mirror goes on.

    Closed segments are shared by hard links, everything else is copied. The fork is a cluster of its own with one node,
    at another port, in which the topics of the mirror are writable. It never connects to the real cluster or to the
    source.
    """
    from kpybroker.cli import mirror_rehearsal

    if log_dirs is None:
        with connected(server) as client:
            found = mirror_rehearsal.local_directories(client)
    else:
        found = [Path(each) for each in log_dirs.split(",") if each]
    mirror_rehearsal.rehearse(name, found, directories, port)


class PartitionLoss(NamedTuple):
    """The end of a partition's mirror; None for what is not known."""

    spot: Spot
    end: int
    last_time_ms: int | None
    lost_records: int | None
    lost_ms: int | None
    cut_records: int = 0
    """The offsets that were mirrored and are cut off, so that no transaction is torn."""


def _wait(
    client: Client,
    topics: Sequence[MirroredTopic],
    source: Client,
    named: Iterable[str],
    most_lag: int,
    timeout_s: float,
) -> None:
    deadline_s = time.monotonic() + timeout_s
    while True:
        ending = [] if most_lag else mirror_requests.ending_transactions(source, [each.name for each in topics])
        found = mirror_requests.partitions(client, topics, source, named)
        behind = [each for each in found if each.lag is None or each.lag > most_lag]
        if not behind and not ending:
            return
        if time.monotonic() >= deadline_s and not behind:
            raise click.ClickException(
                f"{plural(len(ending), 'transaction')} of the source still ending after {timeout_s:.0f} s, that of "
                f"{printable(ending[0])} among them; nothing was changed"
            )
        if time.monotonic() >= deadline_s:
            first = behind[0]
            lag = "an unknown number of records" if first.lag is None else plural(first.lag, "record")
            raise click.ClickException(
                f"{plural(len(behind), 'partition')} still behind after {timeout_s:.0f} s, {first.spot} by {lag}: "
                f"{first.reason or 'the source does not say where it ends'}; nothing was changed"
            )
        time.sleep(LOOK_EVERY_S)


def _carry_groups(client: Client, source: Client | None, losses: Iterable[PartitionLoss]) -> None:
    """Carry the last offsets of groups over: brokers did so up to a second ago."""
    if source is None:
        return
    try:
        refused = mirrored_groups.carry_over(client, source, {each.spot: each.end for each in losses})
    except (KafkaError, Unreachable) as error:
        click.echo(f"The groups stay as they were carried over before: {printable(str(error))}", err=True)
        return
    for group, why in refused:
        click.echo(f"Group {printable(group)} stays as it was carried over before: {printable(str(why))}", err=True)


def _losses(
    client: Client, topics: Iterable[MirroredTopic], source: Client | None, cut: Mapping[Spot, CutPart]
) -> list[PartitionLoss]:
    found = mirror_requests.partitions(client, topics, None, ())
    spots = [each.spot for each in found]
    last = mirror_requests.last_records(client, spots)
    there: dict[Spot, tuple[int, int]] = {}
    if source is not None:
        try:
            ends = source.list_offsets(dict.fromkeys(spots, mirror_requests.LATEST))
            newest = mirror_requests.last_times(source, spots)
            there = {spot: (ends[spot], newest[spot]) for spot in spots}
        except (KafkaError, Unreachable) as error:
            click.echo(
                f"What is lost is not known, since the source does not answer: {printable(str(error))}", err=True
            )
    losses = []
    for spot, end, *_ in found:
        time_ms = last[spot].timestamp if last[spot].timestamp >= 0 else None
        records = lost_ms = None
        if spot in there:
            source_end, newest_ms = there[spot]
            records = max(source_end - (end or 0), 0)
            if not records or newest_ms >= 0:
                lost_ms = max(newest_ms - (time_ms or newest_ms), 0) if records else 0
        cut_records = cut[spot].records if spot in cut else 0
        losses.append(PartitionLoss(spot, end or 0, time_ms, records, lost_ms, cut_records))
    return losses


def _report(name: str, losses: Sequence[PartitionLoss], aborted: int, *, as_json: bool) -> None:
    if as_json:
        rows = [{"topic": each.spot.topic, "partition": each.spot.partition, **_loss_json(each)} for each in losses]
        show_json({"mirror": name, "aborted_transactions": aborted, "partitions": rows})
        return
    shown = [
        (
            each.spot.topic,
            each.spot.partition,
            each.end,
            each.cut_records,
            "?" if each.lost_records is None else each.lost_records,
            "?" if each.lost_ms is None else duration_text(each.lost_ms),
        )
        for each in losses
    ]
    click.echo(columns(("TOPIC", "PARTITION", "END", "CUT OFF", "LOST RECORDS", "LOST TIME"), shown))
    if aborted:
        click.echo(f"{plural(aborted, 'open transaction')} aborted, counted in each partition.")
    click.echo(f"Mirror {name} has ended; its topics are writable.")


def _loss_json(each: PartitionLoss) -> dict[str, Any]:
    return {
        "end": each.end,
        "last_time_ms": each.last_time_ms,
        "lost_records": each.lost_records,
        "lost_ms": each.lost_ms,
        "cut_records": each.cut_records,
    }


def _as_json(each: MirroredPartition) -> dict[str, Any]:
    return {
        "topic": each.spot.topic,
        "partition": each.spot.partition,
        "end": each.end,
        "source_end": each.source_end,
        "lag": each.lag,
        "reason": each.reason,
        "is_whole": each.is_whole,
    }


def _shown(number: int | None) -> int | str:
    return "?" if number is None else number


@contextmanager
def _source(path: Path | None, *, may_be_away: bool = False) -> Iterator[Client | None]:
    """A client of the source; None without a file, or if the source may be away and is."""
    if path is None:
        yield None
        return
    from kpybroker.config.properties import read_properties
    from kpybroker.machines.config_def import ConfigError

    try:
        source = source_of({name: each.value for name, each in read_properties(path).items()})
    except (BadProperty, ConfigError) as error:
        raise click.BadParameter(f"{path}: {error}", param_hint="--source") from None
    with source.client() as client:
        try:
            client.nodes()
        except (KafkaError, Unreachable) as error:
            if not may_be_away:
                raise NotReached(f"the source: {error}") from None
            click.echo(f"The source does not answer: {printable(str(error))}", err=True)
            yield None
            return
        yield client
