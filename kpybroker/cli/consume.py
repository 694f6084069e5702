"""``kpybroker consume TOPIC...``: print records, options as in kcat and rpk."""

import math
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import click

from kpybroker.cli import completion
from kpybroker.cli.client_settings import Values, number, seconds, settings_of
from kpybroker.cli.command_config import with_file
from kpybroker.cli.contact import Contact, SayIfLong, mute, say
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.property_option import agree, properties
from kpybroker.cli.record_format import formatter, json_line, simple_layout
from kpybroker.cli.start_positions import Start, start_of
from kpybroker.client import client_configs
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.client_configs import Value
from kpybroker.client.group_member import GroupMember, MembershipSettings
from kpybroker.client.leaver import Leaver
from kpybroker.client.patience import Patience
from kpybroker.client.reader import RESETS, FetchSettings, ReadRecord, RecordReader
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

Show = Callable[[ReadRecord], bytes]
Say = Callable[[str], object]

ANSWER_S: Final = 5.0
"""The time added to --timeout-ms for an answer that is on its way."""
JOIN_S: Final = 1.5
"""The time to join a group after which a line on stderr says what the command waits for."""


@click.command(name="consume")
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=completion.topics)
@click.option(
    "-o",
    "--offset",
    "start",
    metavar="WHERE",
    callback=start_of,
    help="start, end, an offset, +N behind the start, -N before the end of each partition, @time (ms or ISO 8601), or "
    "stored: what the group has committed. With --group it is for partitions without a committed offset. "
    "[default: start]",
)
@click.option("--from-beginning", is_flag=True, help="The same as -o start, as in Kafka's console consumer.")
@click.option(
    "-p",
    "--partition",
    "only",
    type=click.IntRange(0),
    metavar="N",
    multiple=True,
    help="Read only this partition. Repeatable.",
)
@click.option(
    "-G",
    "--group",
    metavar="GROUP",
    shell_complete=completion.groups,
    help="Read as a member of this group, and commit.",
)
@click.option(
    "--instance",
    metavar="ID",
    help="With --group: be this static member, which stays in the group when the command ends.",
)
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="End after this number of records.")
@click.option("--timeout-ms", type=click.IntRange(0), metavar="MS", help="End when no record has come for this time.")
@click.option("-e", "--exit", "to_end", is_flag=True, help="End where the partitions end now, instead of waiting.")
@click.option(
    "-f",
    "--format",
    "layout",
    metavar="FORMAT",
    help="A format as in '%t %p %o %k %v\\n'; %t topic, %p partition, %o offset, %k key, %v or %s value, %T or %d "
    "time, %h headers, %K %V or %S %R lengths, %% itself, and \\n \\t \\r \\0 \\\\ \\x41.",
)
@click.option(
    "-K", "--key-delimiter", metavar="DELIMITER", help="Print the key, this delimiter and the value on each line."
)
@click.option("-Z", "--null", "show_null", is_flag=True, help="Print NULL for null keys and values.")
@click.option("--read-committed", is_flag=True, help="Leave out records of uncommitted transactions.")
@properties(client_configs.CONSUME)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr, nothing about the group or outages.")
@json_output
@bootstrap_server
def command(
    topics: tuple[str, ...],
    start: Start | None,
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
    configured: Mapping[str, Value],
    quiet: bool,
    as_json: bool,
    server: str,
) -> None:
    """Print the records of topics and wait for more, until Ctrl-C.

    It waits for a broker that goes away; --timeout-ms and --exit bound that (see default.api.timeout.ms of -X).
    """
    configured = with_file(client_configs.CONSUME, configured)
    group = agree(configured, "group.id", "--group", group)
    instance = agree(configured, "group.instance.id", "--instance", instance)
    if group is not None and only:
        raise click.UsageError("with --group, the group chooses the partitions; leave --partition out")
    if instance is not None and group is None:
        raise click.UsageError("--instance names a member of a group; add --group")
    level = agree(configured, "isolation.level", "--read-committed", "read_committed" if read_committed else None)
    values = client_configs.with_defaults(
        client_configs.CONSUME, {**configured, **({"isolation.level": level} if level else {})}
    )
    show = show_by(layout, key_delimiter, show_null=show_null, as_json=as_json)
    begin = _from_start if from_beginning else start or _start_by(values)
    say_line = mute if quiet else say
    wanted = RecordsToPrint(topics, only, group, instance, count, timeout_ms, to_end)
    read(server, values, wanted, begin, show, say_line)


class RecordsToPrint(NamedTuple):
    """The records to print, and when to end."""

    topics: tuple[str, ...]
    only: tuple[int, ...] = ()
    """The partitions; all without any."""
    group: str | None = None
    instance: str | None = None
    most: int | None = None
    """The number of records after which to end."""
    timeout_ms: int | None = None
    to_end: bool = False


def read(server: str, values: Values, wanted: RecordsToPrint, begin: Start, show: Show, say_line: Say) -> int:
    """Print the records of topics, as a member of a group if one is named. Return the number of records.

    The errors are those of `connected`.
    """
    contact = Contact("waiting for it.", say_line)
    with connected(server, seconds(values, "request.timeout.ms"), settings_of(values), contact) as client:
        out = Printing(client, show, wanted.most, wanted.timeout_ms)
        manner = _Manner(_fetching(values), None if wanted.to_end else math.inf, wanted.to_end, say_line)
        if wanted.group is None:
            with out.in_time():
                spots = [spot for topic in wanted.topics for spot in partitions(client, topic, wanted.only)]
                reader = manner.reader(client, begin(client, spots))
            out.follow(reader, manner)
        else:
            with out.in_time():
                for topic in wanted.topics:
                    client.topic(topic)
            membership = _membership(values, manner.patience_s)
            member = GroupMember(
                client, wanted.group, wanted.topics, lambda spots: begin(client, spots), wanted.instance, membership
            )
            as_member(member, lambda: _read_as_member(member, out, manner), say_line)
    return out.printed


class _Manner(NamedTuple):
    """The manner of reading partitions, alone or in a group."""

    fetching: FetchSettings
    patience_s: float | None
    to_end: bool
    say: Say

    def reader(self, client: Client, positions: Mapping[Spot, int]) -> RecordReader:
        return RecordReader(client, positions, fetching=self.fetching, patience_s=self.patience_s)

    def ends(self, reader: RecordReader) -> dict[Spot, int] | None:
        """The present ends of the partitions, if reading stops there."""
        if not self.to_end:
            return None
        wanted = dict.fromkeys(reader.positions, LATEST_TIMESTAMP)
        return reader.client.list_offsets(wanted, committed_only=self.fetching.committed_only)


def _fetching(values: Values) -> FetchSettings:
    reset = values["auto.offset.reset"]
    return FetchSettings(
        min_bytes=number(values, "fetch.min.bytes"),
        max_wait_ms=number(values, "fetch.max.wait.ms"),
        max_bytes=number(values, "fetch.max.bytes"),
        partition_max_bytes=number(values, "max.partition.fetch.bytes"),
        committed_only=values["isolation.level"] == "read_committed",
        rack=str(values["client.rack"] or ""),
        reset=None if reset is None else str(reset),
        checks_crcs=bool(values["check.crcs"]),
    )


def _membership(values: Values, patience_s: float | None) -> MembershipSettings:
    return MembershipSettings(
        session_timeout_ms=number(values, "session.timeout.ms"),
        rebalance_timeout_ms=number(values, "max.poll.interval.ms"),
        heartbeat_s=seconds(values, "heartbeat.interval.ms"),
        commit_s=seconds(values, "auto.commit.interval.ms"),
        commits=bool(values["enable.auto.commit"]),
        patience_s=patience_s,
    )


def _start_by(values: Values) -> Start:
    """The default start if ``--offset`` is not given."""
    reset = values["auto.offset.reset"]
    if reset is None:
        return _from_start
    timestamp = RESETS.get(str(reset))
    if timestamp is None:
        return _nowhere
    return lambda client, spots: client.list_offsets(dict.fromkeys(spots, timestamp))


def _nowhere(_client: Client, spots: list[Spot]) -> dict[Spot, int]:
    text = f"partition {spots[0]} has no committed offset, and auto.offset.reset is none; use --offset"
    raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE, text)


def show_by(layout: str | None, key_delimiter: str | None, *, show_null: bool, as_json: bool) -> Show:
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


def partitions(client: Client, topic: str, only: Iterable[int]) -> list[Spot]:
    """The partitions to read. Raises KafkaError if the topic or one of ``only`` is not there."""
    there = [each.partition_index for each in client.topic(topic).partitions]
    missing = set(only) - set(there)
    if missing:
        message = f"topic {topic} has no partition {min(missing)}, only 0 to {len(there) - 1}"
        raise KafkaError(error_codes.INVALID_PARTITIONS, message)
    return [Spot(topic, index) for index in there if not only or index in only]


class Printing:
    """Prints records to stdout, at most ``count`` of them, and is over when none has come for ``timeout_ms``."""

    def __init__(self, client: Client, show: Show, count: int | None, timeout_ms: int | None) -> None:
        self.client = client
        self.show = show
        self.left = count
        self.printed = 0
        self._timeout_s = math.inf if timeout_ms is None else timeout_ms / 1000
        self._came_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be printed, wherever the partitions end."""
        return self.left == 0 or time.monotonic() - self._came_s > self._timeout_s

    def begin(self) -> None:
        """Start the timeout: from now on records may come."""
        self._came_s = time.monotonic()

    def in_time(self) -> AbstractContextManager[None]:
        """Inside the block, wait for no broker that cannot answer before this is over."""
        return self.client.until(self._came_s + self._timeout_s + ANSWER_S)

    def end(self, patience: Patience) -> None:
        """Raise the trouble, if it is the reason why no record came."""
        if self.left != 0 and patience.trouble is not None:
            raise patience.trouble

    def follow(self, reader: RecordReader, manner: _Manner) -> None:
        """Print round after round until the count is reached, or the ends if reading stops there, or the timeout."""
        ends = manner.ends(reader)
        self.begin()
        while not self.is_over and not _all_read(reader, ends):
            with self.in_time():
                self.print(reader.poll(), ends)
            _say_resets(reader, manner.say)
        self.end(reader.patience)

    def print(
        self, found: Iterator[ReadRecord], ends: dict[Spot, int] | None, done: Callable[[Spot, int], Any] | None = None
    ) -> None:
        """Print one round: the records below ``ends``. ``done`` is called for each partition with the offset that was
        reached.

        Written records are sent with the next flush; an interruption only makes it happen sooner.
        """
        out = sys.stdout.buffer
        for each in found:
            if ends is not None and each.record.offset >= ends[each.spot]:
                continue
            out.write(self.show(each))
            self.printed += 1
            self._came_s = time.monotonic()
            if done is not None:
                done(each.spot, each.record.offset + 1)
            if self.left is not None:
                self.left -= 1
                if self.left == 0:
                    break
        out.flush()


def _all_read(reader: RecordReader, ends: dict[Spot, int] | None) -> bool:
    return ends is not None and all(reader.positions[spot] >= end for spot, end in ends.items())


def _leave_first(_number: int, _frame: object) -> None:
    """Make SIGTERM end a member as Ctrl-C does: it leaves, and the group need not wait for its session to end."""
    raise SystemExit(128 + signal.SIGTERM)


def _say_resets(reader: RecordReader, say_line: Say) -> None:
    for spot, position in reader.resets.items():
        say_line(f"Partition {spot} has no offset {position}; reading on at {reader.positions[spot]}.")
    reader.resets.clear()


def as_member(member: Leaver, read: Callable[[], None], say_line: Say) -> None:
    """Read as a member of a group, and leave it at the end, however that comes."""
    before = signal.signal(signal.SIGTERM, _leave_first)
    try:
        read()
    except BrokenPipeError:
        member.forget()
        member.leave()
        raise
    except BaseException:
        if not member.leave_in_haste():
            say_line(f"Group {member.group}: what was read last could not be reported; some records will come again.")
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    member.leave()


def _read_as_member(member: GroupMember, out: Printing, manner: _Manner) -> None:
    """Read the partitions that the group assigns, through rebalances, until the count or the ends are reached."""
    is_first = True
    while True:
        text = f"Waiting for group {member.group}: its rebalance ends when all members have joined or are out."
        with SayIfLong(JOIN_S, text, manner.say):
            reader = manner.reader(member.client, member.join())
        owned = " ".join(map(str, sorted(reader.positions))) or "nothing"
        manner.say(f"Group {member.group}, generation {member.generation}: reading {owned}")
        ends = manner.ends(reader)
        if is_first:
            out.begin()
            is_first = False
        while _keeps_up(member, out):
            if out.is_over or _all_read(reader, ends):
                out.end(reader.patience)
                return
            with out.in_time():
                out.print(reader.poll(), ends, member.finish)
            _say_resets(reader, manner.say)
        manner.say(f"Group {member.group} rebalances")


def _keeps_up(member: GroupMember, out: Printing) -> bool:
    with out.in_time():
        return member.keep_up()
