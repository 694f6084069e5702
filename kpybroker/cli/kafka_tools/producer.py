"""kafka-console-producer: one record for each line of the standard input."""

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.cli.client_settings import seconds, settings_of
from kpybroker.cli.delivering import BadLine
from kpybroker.cli.kafka_tools.options import Found, ToolOptions, ToolRefusal, client_values, cluster_of, file_of
from kpybroker.cli.options import connected
from kpybroker.cli.produce import contact_of, deliver, delivering_of, delivery_of, end
from kpybroker.client import client_configs
from kpybroker.client.sender import Sender
from kpywire.record import Header, Record

NAME: Final = "kafka-console-producer"
READERS: Final = ("org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader")
PROPERTIES: Final = {
    "parse.key": "false",
    "key.separator": "\t",
    "parse.headers": "false",
    "headers.delimiter": "\t",
    "headers.separator": ",",
    "headers.key.separator": ":",
    "null.marker": "",
    "ignore.error": "false",
}
"""The properties of Kafka's reader of lines, with their defaults."""
OPTIONS: Final = {
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "max-memory-bytes": "buffer.memory",
    "message-send-max-retries": "retries",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "retry-backoff-ms": "retry.backoff.ms",
    "timeout": "linger.ms",
}
"""The options that stand for a property of the producer."""
WITHOUT_EFFECT: Final = {
    "socket-buffer-size": "the buffers of sockets are the system's",
    "sync": "the tool ends when all records were acknowledged in any case",
}
"""The options that are known and change nothing, with their reasons."""


class ToolParsing(NamedTuple):
    """The rules by which a line becomes a record."""

    key: bytes | None
    """The text between key and value; None for lines without a key."""
    headers: tuple[bytes, bytes, bytes] | None
    """The texts behind all headers, between two of them, and between a name and its value."""
    null: bytes
    """The text that stands for null; empty without one."""
    ignores_errors: bool

    def record(self, line: bytes, number: int, time_ms: int) -> Record:
        """The record of a line. Raises BadLine."""
        headers: tuple[Header, ...] = ()
        rest = line.removesuffix(b"\r")
        key: bytes | None = None
        if self.headers is not None:
            before, rest = self._split(rest, self.headers[0], number, "headers delimiter")
            if before is not None and not (self.null and before == self.null):
                headers = tuple(self._header(each, number) for each in self._pairs(before, self.headers[1]))
        if self.key is not None:
            key, rest = self._split(rest, self.key, number, "key separator")
        return Record(timestamp=time_ms, key=self._or_null(key), value=self._or_null(rest), headers=headers)

    def _split(self, text: bytes, separator: bytes, number: int, what: str) -> tuple[bytes | None, bytes]:
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignores_errors:
            return None, text
        raise BadLine(f"No {what} found on line number {number}: '{text.decode('utf-8', 'replace')}'")

    def _pairs(self, text: bytes, separator: bytes) -> list[bytes]:
        """The texts of headers; empty ones at the end are passed over, as by Java."""
        parts = text.split(separator)
        while text and parts and not parts[-1]:
            parts.pop()
        return parts

    def _header(self, text: bytes, number: int) -> Header:
        assert self.headers is not None
        name, found, value = text.partition(self.headers[2])
        if not found and not self.ignores_errors:
            shown = text.decode("utf-8", "replace")
            raise BadLine(f"No header key separator found in pair '{shown}' on line number {number}")
        return name.decode("utf-8", "replace"), self._or_null(value) if found else None

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text is None or (self.null and text == self.null) else text


def options_of() -> ToolOptions:
    """The options of the tool."""
    options = ToolOptions(NAME, "This tool helps to read data from standard input and publish it to Kafka.")
    options.of_cluster()
    options.texts("topic", "line-reader", "reader-config", "socket-buffer-size", *OPTIONS)
    options.numbers("max-block-ms")
    options.flags("sync")
    options.add_argument("--compression-codec", nargs="?", const="gzip")
    options.add_argument("--producer.config", dest="command_config")
    options.add_argument("--property", "--reader-property", action="append", default=[], dest="reader_property")
    options.add_argument("--producer-property", "--command-property", action="append", default=[], dest="pairs")
    return options


def run(options: ToolOptions, found: Found) -> None:
    """Run the tool. Raises Refusal, BadProperty, and the errors of `connected`."""
    options.require(found, "topic")
    if found.line_reader is not None and found.line_reader not in READERS:
        raise ToolRefusal(f"the reader {found.line_reader} is written in Java; there is {READERS[0]} alone")
    parsing = parsing_of({**file_of(found.reader_config), **pairs_of(found.reader_property)})
    values = client_values(client_configs.PRODUCE, found.command_config, [*_pairs(found), *found.pairs])
    with cluster_of(found, None if found.max_block_ms is None else int(found.max_block_ms)):
        pass  # it is there now
    contact = contact_of(values, quiet=False)
    with connected(
        found.bootstrap_server, seconds(values, "request.timeout.ms"), settings_of(values), contact
    ) as client:
        sender = Sender(client, found.topic, delivery=delivery_of(values, str(values["compression.type"])))
        delivering = delivering_of(sender, sys.stdin.buffer, parsing.record, values, contact)
        deliver(delivering, as_json=False, quiet=True)
    if delivering.bad_line is not None:
        raise ToolRefusal(str(delivering.bad_line))
    end(delivering, found.topic, quiet=True)


def _pairs(found: Found) -> list[str]:
    """The options as properties of the producer."""
    given = {name: getattr(found, option.replace("-", "_")) for option, name in OPTIONS.items()}
    given["compression.type"] = found.compression_codec
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def pairs_of(texts: Sequence[str]) -> dict[str, str]:
    """The pairs of ``--property KEY=VALUE``, repeated. A KEY alone has an empty value, as for Kafka's tools."""
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


def parsing_of(configured: Mapping[str, str]) -> ToolParsing:
    """The rules that properties of the reader say. Raises Refusal for one that is not known."""
    for name in configured:
        if name not in PROPERTIES:
            raise ToolRefusal(f"the property {name} is not known; there are {', '.join(PROPERTIES)}")
    values = {**PROPERTIES, **configured}

    def flag(name: str) -> bool:
        return values[name].strip().lower() == "true"

    headers = [values[name].encode() for name in ("headers.delimiter", "headers.separator", "headers.key.separator")]
    if not (values["key.separator"] and all(headers)):
        raise ToolRefusal("a separator is empty")
    if flag("parse.headers") and len(set(headers)) < len(headers):
        raise ToolRefusal("the separators of headers must differ from each other")
    return ToolParsing(
        values["key.separator"].encode() if flag("parse.key") else None,
        (headers[0], headers[1], headers[2]) if flag("parse.headers") else None,
        values["null.marker"].encode(),
        flag("ignore.error"),
    )
