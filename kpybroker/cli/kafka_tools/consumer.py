"""kafka-console-consumer: prints records."""

import sys
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final
from uuid import UUID

from kpybroker.cli.consume import RecordsToPrint, read
from kpybroker.cli.contact import mute
from kpybroker.cli.kafka_tools.options import (
    Found,
    ToolOptions,
    ToolRefusal,
    client_values,
    cluster_of,
    file_of,
    pattern_of,
)
from kpybroker.cli.kafka_tools.producer import pairs_of
from kpybroker.cli.start_positions import Start
from kpybroker.client import client_configs
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.reader import ReadRecord as Record

NAME: Final = "kafka-console-consumer"
DEFAULT_FORMATTERS: Final = (
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    "kafka.tools.DefaultMessageFormatter",
)
NO_OUTPUT: Final = ("org.apache.kafka.tools.consumer.NoOpMessageFormatter", "kafka.tools.NoOpMessageFormatter")
PRINTED: Final = ("timestamp", "partition", "offset", "delivery", "epoch", "headers", "key", "value")
"""The parts of a record in the order of their output: ``print.`` before the name is the property."""
PROPERTIES: Final = {
    **{f"print.{part}": "true" if part == "value" else "false" for part in PRINTED},
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
    "key.deserializer": "",
    "value.deserializer": "",
    "headers.deserializer": "",
}
"""The properties of Kafka's formatter, with their defaults."""
SERIALIZATION: Final = "org.apache.kafka.common.serialization."


def _number(layout: str) -> Callable[[bytes], bytes]:
    packed = Struct(layout)

    def text(value: bytes) -> bytes:
        if len(value) != packed.size:
            raise ToolRefusal(f"Size of data received by a deserializer is not {packed.size}")
        (number,) = packed.unpack(value)
        return b"%d" % number

    return text


def _uuid(value: bytes) -> bytes:
    try:
        return str(UUID(value.decode())).encode()
    except ValueError:
        raise ToolRefusal("Error parsing data into UUID") from None


DESERIALIZERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    f"{SERIALIZATION}StringDeserializer": lambda value: value.decode("utf-8", "replace").encode(),
    f"{SERIALIZATION}LongDeserializer": _number(">q"),
    f"{SERIALIZATION}IntegerDeserializer": _number(">i"),
    f"{SERIALIZATION}ShortDeserializer": _number(">h"),
    f"{SERIALIZATION}UUIDDeserializer": _uuid,
}
"""The deserializers that are known by name, each as the text of its values."""
STARTS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


def options_of() -> ToolOptions:
    """The options of the tool."""
    options = ToolOptions(NAME, "This tool helps to read data from Kafka topics and outputs it to standard output.")
    options.of_cluster()
    options.texts("topic", "include", "group", "offset", "isolation-level", "formatter", "formatter-config")
    options.texts("key-deserializer", "value-deserializer")
    options.numbers("max-messages", "timeout-ms", "partition")
    options.flags("from-beginning", "skip-message-on-error")
    options.add_argument("--consumer.config", dest="command_config")
    options.add_argument("--property", "--formatter-property", action="append", default=[], dest="formatter_property")
    options.add_argument("--consumer-property", "--command-property", action="append", default=[], dest="pairs")
    return options


def run(options: ToolOptions, found: Found) -> None:
    """Run the tool. Raises Refusal, BadProperty, and the errors of `connected`."""
    _check(options, found)
    show = skipping(show_of(found)) if found.skip_message_on_error else show_of(found)
    pairs = [*found.pairs, *([f"isolation.level={found.isolation_level}"] if found.isolation_level else [])]
    values = client_values(client_configs.CONSUME, found.command_config, pairs)
    reset = str(values["auto.offset.reset"] or "")
    if found.from_beginning and reset == "latest":
        options.error("can't simultaneously specify --from-beginning and auto.offset.reset=latest")
    start = found.offset or ("earliest" if found.from_beginning else reset or "latest")
    group = found.group or (None if values["group.id"] is None else str(values["group.id"]))
    topics = _topics(found)
    only = () if found.partition is None else (found.partition,)
    limits = (None if found.max_messages in (None, -1) else found.max_messages, _timeout_ms(found))
    count = read(
        found.bootstrap_server, values, RecordsToPrint(topics, only, group, None, *limits), _begin(start), show, mute
    )
    print(f"Processed a total of {count} messages", file=sys.stderr)


def _timeout_ms(found: Found) -> int | None:
    return None if found.timeout_ms is None or found.timeout_ms < 0 else int(found.timeout_ms)


def _check(options: ToolOptions, found: Found) -> None:
    if (found.topic is None) == (found.include is None):
        options.error("exactly one of the following arguments is required: topic, include")
    if found.partition is not None and found.topic is None:
        options.error("the topic is required when a partition is specified")
    if found.offset is not None and found.partition is None:
        options.error("the partition is required when offset is specified")
    if found.group is not None and found.partition is not None:
        options.error("options group and partition cannot be specified together")
    if found.offset is not None and found.from_beginning:
        options.error("options from-beginning and offset cannot be specified together")
    if found.offset is not None and found.offset.lower() not in STARTS and not found.offset.isdecimal():
        options.error(
            f"the provided offset value '{found.offset}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long"
        )
    if found.max_messages is not None and found.max_messages < -1:
        options.error("max-messages is a number of messages")


def _topics(found: Found) -> tuple[str, ...]:
    """The topic, or those that ``--include`` means now. Raises Refusal without any, Unreachable without a cluster."""
    with cluster_of(found, _timeout_ms(found)) as client:
        if found.topic is not None:
            client.retrying(lambda: client.topic(found.topic, create=True))  # a broker may create it, as for Java's
            return (found.topic,)
        names = tuple(sorted(filter(pattern_of(found.include), client.topic_names())))
    if not names:
        raise ToolRefusal(f"no topic is included by {found.include}")
    return names


def _begin(start: str) -> Start:
    timestamp = STARTS.get(start.lower())

    def begin(client: Client, spots: list[Spot]) -> dict[Spot, int]:
        if timestamp is None:
            return dict.fromkeys(spots, int(start))
        return client.list_offsets(dict.fromkeys(spots, timestamp))

    return begin


def skipping(show: Callable[[Record], bytes]) -> Callable[[Record], bytes]:
    """The same output, without the records whose bytes are none of the deserializer's."""

    def shown(record: Record) -> bytes:
        try:
            return show(record)
        except ToolRefusal as error:
            print(f"Skipping offset {record.record.offset} of {record.spot}: {error}", file=sys.stderr)
            return b""

    return shown


def show_of(found: Found) -> Callable[[Record], bytes]:
    """The output of a record. Raises Refusal for a formatter or a property that is not known."""
    configured = {**file_of(found.formatter_config), **pairs_of(found.formatter_property)}
    for option in ("key_deserializer", "value_deserializer"):
        if getattr(found, option) is not None:
            configured[option.replace("_", ".")] = getattr(found, option)
    for name in configured:
        if name not in PROPERTIES:
            raise ToolRefusal(f"the property {name} is not known; there are {', '.join(PROPERTIES)}")
    if found.formatter in NO_OUTPUT:
        return lambda _record: b""
    if found.formatter is not None and found.formatter not in DEFAULT_FORMATTERS:
        raise ToolRefusal(f"the formatter {found.formatter} is written in Java; there is {DEFAULT_FORMATTERS[0]} alone")
    values = {**PROPERTIES, **configured}
    return formatter(values)


def formatter(values: Mapping[str, str]) -> Callable[[Record], bytes]:
    """Kafka's formatter with these properties."""
    null = values["null.literal"].encode()

    def reader(name: str) -> Callable[[bytes | None], bytes]:
        text = DESERIALIZERS.get(values[name])
        if text is None:
            raise ToolRefusal(
                f"{name}={values[name]} is written in Java; known are {', '.join(filter(None, DESERIALIZERS))}"
            )
        return lambda value: null if value is None else text(value)

    of_key, of_value, of_header = (reader(f"{part}.deserializer") for part in ("key", "value", "headers"))
    between = values["headers.separator"].encode()
    parts: dict[str, Callable[[Record], bytes]] = {
        "timestamp": _timestamp,
        "partition": lambda each: b"Partition:%d" % each.spot.partition,
        "offset": lambda each: b"Offset:%d" % each.record.offset,
        "delivery": lambda _each: b"Delivery:NOT_PRESENT",
        "epoch": lambda _each: b"Epoch:NOT_PRESENT",
        "headers": lambda each: (
            between.join(name.encode() + b":" + of_header(value) for name, value in each.record.headers)
            or b"NO_HEADERS"
        ),
        "key": lambda each: of_key(each.record.key),
        "value": lambda each: of_value(each.record.value),
    }
    shown = [parts[name] for name in PRINTED if values[f"print.{name}"].strip().lower() == "true"]
    separator, line_end = values["key.separator"].encode(), values["line.separator"].encode()
    if not shown:
        return lambda _record: b""
    return lambda each: separator.join(part(each) for part in shown) + line_end


def _timestamp(each: Record) -> bytes:
    if each.record.timestamp < 0:
        return b"NO_TIMESTAMP"
    is_appended = each.header is not None and each.header.timestamp_type
    return b"%s:%d" % (b"LogAppendTime" if is_appended else b"CreateTime", each.record.timestamp)
