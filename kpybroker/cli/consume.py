"""``kpybroker consume TOPIC...``: print records, options as in kcat and rpk."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from kpybroker.cli import completion
from kpybroker.cli.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.cli.group_member import GroupMember
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.reader import Found, Reader
from kpybroker.cli.record_format import formatter, json_line, simple_layout
from kpybroker.cli.start_positions import Start, start_of
from kpybroker.errors import KafkaError
from kpywire import error_codes

Show = Callable[[Found], bytes]


@click.command(name="consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
@click.option(
    "-o",
    "--offset",
    "start",
    metavar="WHERE",
    default="start",
    show_default=True,
    callback=start_of,
    help="start, end, an offset, +N behind the start, -N before the end of each partition, @time (ms or ISO 8601), or "
    "stored: what the group has committed. With --group it is for partitions without a committed offset.",
)
@click.option("--from-beginning", is_flag=True, help="The same as -o start, as in Kafka's console consumer.")
@click.option(
    "-p", "--partition", "only", type=click.IntRange(0), metavar="N", multiple=True, help="Only this one. Repeatable."
)
@click.option("-G", "--group", metavar="GROUP", shell_complete=completion.groups, help="Read as a member, and commit.")
@click.option("--instance", metavar="ID", help="With --group: a static member, which stays when it ends.")
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="End after so many records.")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="MS", help="End when no record has come for so long.")
@click.option("-e", "--exit", "to_end", is_flag=True, help="End where the partitions end now, instead of waiting.")
@click.option(
    "-f",
    "--format",
    "layout",
    metavar="FORMAT",
    help="As in '%t %p %o %k %v\\n'; %t topic, %p partition, %o offset, %k key, %v or %s value, %T or %d time, %h "
    "headers, %K %V or %S %R lengths, %% itself, and \\n \\t \\r \\0 \\\\ \\x41.",
)
@click.option("-K", "--key-delimiter", metavar="DELIMITER", help="Print KEY, this, VALUE on each line.")
@click.option("-Z", "--null", "show_null", is_flag=True, help="Print NULL for null keys and values.")
@click.option("--read-committed", is_flag=True, help="Leave out records of transactions that are not committed.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing about what the group does.")
@json_output
@bootstrap_server
def command(
    topics: tuple[str, ...],
    start: Start,
    from_beginning: bool,
    only: tuple[int, ...],
    group: str | None,
    instance: str | None,
    count: int | None,
    timeout_ms: int | None,
    to_end: bool,
    layout: str | None,
    key_delimiter: str | None,
    show_null: bool,
    read_committed: bool,
    quiet: bool,
    as_json: bool,
    server: str,
) -> None:
    """Print the records of topics and wait for more, until Ctrl-C."""
    if group is not None and only:
        raise click.UsageError("the group says which partitions are read; leave --partition out")
    if instance is not None and group is None:
        raise click.UsageError("--instance names a member of a group; say --group")
    show = _show(layout, key_delimiter, show_null, as_json)
    begin = _from_start if from_beginning else start
    with connected(server) as client:
        out = _Printing(show, count, timeout_ms)
        if group is None:
            spots = [spot for topic in topics for spot in partitions(client, topic, only)]
            ends = _ends(client, spots, committed_only=read_committed) if to_end else None
            out.follow(Reader(client, begin(client, spots), committed_only=read_committed), ends)
        else:
            for topic in topics:
                client.topic(topic)
            member = GroupMember(client, group, topics, lambda spots: begin(client, spots), instance)
            _as_member(member, out, to_end=to_end, quiet=quiet, committed_only=read_committed)


def _show(layout: str | None, key_delimiter: str | None, show_null: bool, as_json: bool) -> Show:
    if sum((layout is not None, key_delimiter is not None, as_json)) > 1:
        raise click.UsageError("--format, --key-delimiter and --json exclude each other")
    if as_json:
        return json_line
    try:
        return formatter(simple_layout(key_delimiter) if layout is None else layout, null=b"NULL" if show_null else b"")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


def _from_start(client: Client, spots: list[Spot]) -> dict[Spot, int]:
    return client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))


def _ends(client: Client, spots: Iterable[Spot], *, committed_only: bool) -> dict[Spot, int]:
    return client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP), committed_only=committed_only)


def partitions(client: Client, topic: str, only: Iterable[int]) -> list[Spot]:
    """The partitions to read. Raises KafkaError if the topic or one of ``only`` is not there."""
    there = [each.partition_index for each in client.topic(topic).partitions]
    missing = set(only) - set(there)
    if missing:
        message = f"topic {topic} has no partition {min(missing)}, only 0 to {len(there) - 1}"
        raise KafkaError(error_codes.INVALID_PARTITIONS, message)
    return [Spot(topic, index) for index in there if not only or index in only]


class _Printing:
    """Prints records to stdout, at most ``count`` of them, and is over when none has come for ``timeout_ms``."""

    def __init__(self, show: Show, count: int | None, timeout_ms: int | None) -> None:
        self.show = show
        self.left = count
        self._timeout_s = math.inf if timeout_ms is None else timeout_ms / 1000
        self._came_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to print, wherever the partitions end."""
        return self.left == 0 or time.monotonic() - self._came_s > self._timeout_s

    def follow(self, reader: Reader, ends: dict[Spot, int] | None) -> None:
        """Print round after round until the count is reached, or ``ends`` if there are any, or the timeout."""
        while not self.is_over and not _all_read(reader, ends):
            self.print(reader.poll(), ends)

    def print(
        self, found: Iterator[Found], ends: dict[Spot, int] | None, done: Callable[[Spot, int], Any] | None = None
    ) -> None:
        """Print one round, what lies below ``ends``; ``done`` hears of each partition how far it was written.

        What was written leaves with the next flush, which an interruption only brings forward.
        """
        out = sys.stdout.buffer
        for each in found:
            if ends is not None and each.record.offset >= ends[each.spot]:
                continue
            out.write(self.show(each))
            self._came_s = time.monotonic()
            if done is not None:
                done(each.spot, each.record.offset + 1)
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    break
        out.flush()


def _all_read(reader: Reader, ends: dict[Spot, int] | None) -> bool:
    return ends is not None and all(reader.positions[spot] >= end for spot, end in ends.items())


def _leave_first(_number: int, _frame: object) -> None:
    """SIGTERM ends a member as Ctrl-C does: it leaves, and the group need not wait for its session to end."""
    raise SystemExit(128 + signal.SIGTERM)


def _as_member(member: GroupMember, out: _Printing, *, to_end: bool, quiet: bool, committed_only: bool) -> None:
    """Read what the group assigns, through rebalances, until the count or the ends are reached; then leave."""
    before = signal.signal(signal.SIGTERM, _leave_first)
    try:
        while True:
            reader = Reader(member.client, member.join(), committed_only=committed_only)
            if not quiet:
                owned = " ".join(map(str, sorted(reader.positions))) or "nothing"
                click.echo(f"Group {member.group}, generation {member.generation}: reading {owned}", err=True)
            ends = _ends(member.client, reader.positions, committed_only=committed_only) if to_end else None
            while member.keep_up():
                if out.is_over or _all_read(reader, ends):
                    return
                out.print(reader.poll(), ends, member.finish)
            if not quiet:
                click.echo(f"Group {member.group} rebalances", err=True)
    except BrokenPipeError:
        member.forget()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        member.leave()
