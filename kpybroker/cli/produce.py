"""``kpybroker produce TOPIC``: one record for each line of the input, options as in kcat."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO, NamedTuple

import click

from kpybroker.cli import completion
from kpybroker.cli.client_settings import Values, number, seconds, settings_of
from kpybroker.cli.command_config import with_file
from kpybroker.cli.contact import Contact, mute, say
from kpybroker.cli.delivering import Delivering, left_behind
from kpybroker.cli.intake import Intake, LineTooLong
from kpybroker.cli.options import REFUSED, UNREACHABLE, bootstrap_server, connected, json_output
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.property_option import agree, properties
from kpybroker.cli.tables import duration_text, plural
from kpybroker.client import client_configs
from kpybroker.client.client_configs import Value
from kpybroker.client.sender import Delivery, Placed, Sender, SendRefused
from kpybroker.machines.names_nearby import nearby
from kpywire.compression import NAMES
from kpywire.record import Header, Record


class LineParsing(NamedTuple):
    """The rules by which a line becomes a record."""

    key: bytes | None
    key_delimiter: bytes | None
    headers: tuple[Header, ...]
    empty_is_null: bool

    def record(self, line: bytes, now_ms: int) -> Record:
        """The record of a line. With a delimiter, the text before the first one is the key; a line without one has the
        common key."""
        key, value = self.key, line
        if self.key_delimiter:
            before, found, after = line.partition(self.key_delimiter)
            if found:
                key, value = before, after
        null = self.empty_is_null
        return Record(
            timestamp=now_ms,
            key=None if null and not key else key,
            value=None if null and not value else value,
            headers=self.headers,
        )


def headers_of(_context: click.Context, _option: click.Parameter, pairs: Iterable[str]) -> tuple[Header, ...]:
    """Headers from ``NAME=VALUE``, or ``NAME`` alone for a null value."""
    headers: list[Header] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE")
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


class Keys:
    """Whether lines had the given delimiter: a mistyped one shows in what they have instead."""

    def __init__(self, parsing: LineParsing, say_line: Callable[[str], object]) -> None:
        self.parsing = parsing
        self.say = say_line
        self._lines = self._keyed = 0
        self._is_reported = False

    def record(self, line: bytes, number: int, time_ms: int) -> Record:
        """The record of a line."""
        record = self.parsing.record(line, time_ms)
        if self.parsing.key_delimiter:
            self._lines += 1
            self._keyed += self.parsing.key_delimiter in line
            if record.key == b"" and not self._is_reported:
                self._is_reported = True
                self.say(f"Line {number} has an empty key, which is a key like any other; -Z makes it null.")
        return record

    def at_end(self) -> None:
        """Report it if no line had the delimiter."""
        delimiter = (self.parsing.key_delimiter or b"").decode()
        if self._lines and not self._keyed:
            short = (
                f" To have {delimiter[1:]!r}, say -K{delimiter[1:]}" if delimiter[1:] and delimiter[0] == "=" else ""
            )
            self.say(f"No line has the delimiter {delimiter!r}, so none has a key of its own.{short}")


@click.command(name="produce")
@click.argument("topic", shell_complete=completion.topics)
@click.option("-k", "--key", help="The key of every record without a key of its own.")
@click.option(
    "-K",
    "--key-delimiter",
    metavar="DELIMITER",
    help="Read lines as a key, this delimiter and a value; for example -K:",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=headers_of,
    help="A header of every record. Repeatable.",
)
@click.option("-z", "--compression", type=click.Choice(NAMES), help="The codec of batches. [default: none]")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0),
    metavar="N",
    help="Write to this partition, instead of one chosen by the key.",
)
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Write empty keys and values as null.")
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read this file instead of stdin.")
@properties(client_configs.PRODUCE)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@json_output
@bootstrap_server
def command(
    topic: str,
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[Header, ...],
    compression: str | None,
    partition: int | None,
    empty_is_null: bool,
    source: BinaryIO,
    configured: Mapping[str, Value],
    quiet: bool,
    as_json: bool,
    server: str,
) -> None:
    """Write records to TOPIC, one for each line of the input, and wait until they are safe.

    While the broker is away, lines are kept and sent when it is back, each for at most delivery.timeout.ms (two
    minutes, see -X). A record that could not be delivered is named by its line, and the exit code is not 0.
    """
    configured = with_file(client_configs.PRODUCE, configured)
    codec = agree(configured, "compression.type", "--compression", compression)
    values = client_configs.with_defaults(client_configs.PRODUCE, configured)
    delivery = delivery_of(values, str(codec or NAMES[0]))
    keys = Keys(
        LineParsing(
            key.encode() if key is not None else None,
            key_delimiter.encode() if key_delimiter else None,
            headers,
            empty_is_null,
        ),
        mute if quiet else say,
    )
    contact = contact_of(values, quiet=quiet)
    with connected(server, seconds(values, "request.timeout.ms"), settings_of(values), contact) as client:
        sender = Sender(client, topic, delivery=delivery, partition=partition)
        if sender.is_created and not quiet:
            slip = nearby(client.topic_names(), topic) or "."
            say(f"Topic {topic} did not exist; the broker has created it{slip}")
        if source.isatty() and not quiet:
            say("One record for each line; Ctrl-D ends.")
        delivering = delivering_of(sender, source, keys.record, values, contact)
        deliver(delivering, as_json=as_json, quiet=quiet or source.isatty())
    if not quiet:
        keys.at_end()
    end(delivering, topic, quiet=quiet or as_json)


def contact_of(values: Values, *, quiet: bool) -> Contact:
    """The reports of outages: records wait for the broker."""
    kept = duration_text(number(values, "delivery.timeout.ms"))
    return Contact(f"records wait for it, each up to {kept} (delivery.timeout.ms).", mute if quiet else say)


def delivering_of(
    sender: Sender, source: BinaryIO, record_of: Callable[[bytes, int, int], Record], values: Values, contact: Contact
) -> Delivering:
    """The delivery of the lines of an input."""
    buffer_bytes = number(values, "buffer.memory")
    linger_s = seconds(values, "linger.ms")
    return Delivering(sender, Intake(source), record_of, contact, linger_s=linger_s, buffer_bytes=buffer_bytes)


def delivery_of(values: Values, codec: str) -> Delivery:
    """The settings of a sender."""
    return Delivery(
        codec=NAMES.index(codec),
        acks=number(values, "acks"),
        is_idempotent=bool(values["enable.idempotence"]),
        timeout_s=seconds(values, "delivery.timeout.ms"),
        retries=number(values, "retries"),
        batch_bytes=number(values, "batch.size"),
    )


def deliver(delivering: Delivering, *, as_json: bool, quiet: bool) -> None:
    """Deliver to the end of the input. If it ends sooner, the remaining records are reported."""
    sender = delivering.sender
    is_over = False
    try:
        with contextlib.nullcontext(None) if quiet else ProgressLine("Produced", "record") as progress:
            for placed in delivering.run():
                if progress is not None:
                    progress.reached(delivering.counts.placed)
                if as_json and placed:
                    sys.stdout.writelines(as_line(each) for each in placed)
                    sys.stdout.flush()
        is_over = True
    except LineTooLong as error:
        raise click.ClickException(str(error)) from None
    except SendRefused as refused:
        raise refused.error from None
    finally:
        left = sender.give_up()
        if left:
            say(f"Error: {left_behind(left)}")
        if not is_over and not quiet:
            say(summary(delivering, sender.topic, len(left)))


def end(delivering: Delivering, topic: str, *, quiet: bool) -> None:
    """Print the number of records, and exit with the right code."""
    placed, late, refused = delivering.counts
    failed = late + refused
    if not quiet and (placed or failed != 1):
        say(summary(delivering, topic))
    if failed:
        raise SystemExit(REFUSED if refused else UNREACHABLE)


def summary(delivering: Delivering, topic: str, left: int = 0) -> str:
    """``3 records to t, 2 not delivered``. ``left``: the records that were given up at the end."""
    placed, late, refused = delivering.counts
    failed = late + refused + left
    return f"{plural(placed, 'record')} to {topic}" + (f", {failed} not delivered" if failed else "")


def as_line(placed: Placed) -> str:
    """The place of a record, as a line of JSON."""
    spot, offset, record = placed
    place = {"topic": spot.topic, "partition": spot.partition, "offset": offset, "timestamp": record.timestamp}
    return json.dumps(place) + "\n"
