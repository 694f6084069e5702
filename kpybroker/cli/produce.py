"""``kpybroker produce TOPIC``: one record for each line of the input, options as in kcat."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import click

from kpybroker.cli import completion
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.progress import Progress
from kpybroker.cli.sender import Placed, Sender
from kpybroker.cli.tables import plural
from kpywire.compression import NAMES
from kpywire.record import Header, Record

CHUNK_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 100 * 1024 * 1024
"""What no request can carry by default (``socket.request.max.bytes``)."""


class Parsing(NamedTuple):
    """How a line becomes a record."""

    key: bytes | None
    key_delimiter: bytes | None
    headers: tuple[Header, ...]
    empty_is_null: bool

    def record(self, line: bytes, now_ms: int) -> Record:
        """With a delimiter, what stands before the first one is the key; a line without one has the common key."""
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
    """``NAME=VALUE``, or ``NAME`` alone for a null value."""
    headers: list[Header] = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE")
        headers.append((name, value.encode() if equals else None))
    return tuple(headers)


@click.command(name="produce")
@click.argument("topic", shell_complete=completion.topics)
@click.option("-k", "--key", help="The key of every record that has none of its own.")
@click.option("-K", "--key-delimiter", metavar="DELIMITER", help="Lines are KEY, this, VALUE, as in -K:")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", callback=headers_of, help="Repeatable.")
@click.option("-z", "--compression", type=click.Choice(NAMES), default="none", show_default=True)
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Instead of choosing by key.")
@click.option("-Z", "--null", "empty_is_null", is_flag=True, help="Empty keys and values are null.")
@click.option("-f", "--file", "source", type=click.File("rb"), default="-", help="Read this file instead of stdin.")
@json_output
@bootstrap_server
def command(
    topic: str,
    key: str | None,
    key_delimiter: str | None,
    headers: tuple[Header, ...],
    compression: str,
    partition: int | None,
    empty_is_null: bool,
    source: BinaryIO,
    as_json: bool,
    server: str,
) -> None:
    """Write records to TOPIC, one for each line of the input, and wait until they are safe."""
    delimiter = key_delimiter.encode() if key_delimiter else None
    parsing = Parsing(key.encode() if key is not None else None, delimiter, headers, empty_is_null)
    count = 0
    with connected(server) as client:
        sender = Sender(client, topic, codec=NAMES.index(compression), partition=partition)
        if source.isatty():
            click.echo("One record for each line; Ctrl-D ends.", err=True)
        with Progress("Produced", "record") as progress:
            for lines in batches_of_lines(source):
                now_ms = time.time_ns() // 1_000_000
                placed = sender.send([parsing.record(line, now_ms) for line in lines])
                count += len(placed)
                progress.reached(count)
                if as_json:
                    sys.stdout.writelines(as_line(each) for each in placed)
                    sys.stdout.flush()
    if not as_json:
        click.echo(f"{plural(count, 'record')} to {topic}", err=True)


def batches_of_lines(source: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a stream without their ends, as many at a time as are there: nobody waits for a full batch.

    Raises click.ClickException for a line that no request could carry.
    """
    rest = bytearray()
    read = getattr(source, "read1", source.read)
    while chunk := read(CHUNK_BYTES):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = bytes(rest) + lines[0]
            rest.clear()
            yield [line.removesuffix(b"\r") for line in lines]
        rest += last
        if len(rest) > LONGEST_LINE_BYTES:
            raise click.ClickException(f"a line of the input is longer than {LONGEST_LINE_BYTES >> 20} MiB")
    if rest:
        yield [bytes(rest)]


def as_line(placed: Placed) -> str:
    """Where a record went, as a line of JSON."""
    spot, offset, record = placed
    place = {"topic": spot.topic, "partition": spot.partition, "offset": offset, "timestamp": record.timestamp}
    return json.dumps(place) + "\n"
