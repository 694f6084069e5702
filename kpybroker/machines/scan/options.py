"""The options of a scan: names, meanings and errors are those of Spark's Kafka source. Pure.

Names are compared without regard to case. `read_options` reads the options of any query, and `for_batch` and
`for_stream` check what only one of the two may have.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kpybroker.machines.scan import columns as names_of_columns
from kpybroker.machines.scan.bounds import EARLIEST, EARLIEST_OFFSET, LATEST, LATEST_OFFSET, Bound
from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.filter_text import parse_filter
from kpybroker.machines.scan.filters import Filter, columns_of
from kpybroker.machines.scan.given_options import (
    MOST,
    MOST_INT,
    STORE_NAMES,
    flag,
    lowered,
    number,
    properties_of,
    store_of,
    unknown_options,
    whole,
    word,
)
from kpybroker.machines.scan.planning import TaskSizes
from kpybroker.machines.scan.ranges import Projection, Spot
from kpybroker.machines.scan.topics import Assigned, Subscribed, Topics, matching

TASK_BYTES: Final = 32 * 1024 * 1024
NARROW_TASK_BYTES: Final = 256 * 1024 * 1024
"""The bytes of a task that needs no values. It takes about as long as one of ``TASK_BYTES`` that needs them."""
TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
ATTEMPTS: Final = 3
PAUSE_MS: Final = 1_000
"""Both as in Spark's source."""
AUTO: Final = "auto"
FETCH: Final = "fetch"
FILES: Final = "files"
OBJECTS: Final = "objects"
TRANSPORTS: Final = (AUTO, FETCH, FILES, OBJECTS)
LEASE_MS: Final = 10 * 60 * 1000
SUBSCRIPTIONS: Final = ("subscribe", "subscribepattern", "assign")

_DURATION: Final = re.compile(r"(-?[0-9]+)(us|ms|s|m|min|h|d)?")
_UNIT_MS: Final = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_EXAMPLE_OFFSETS: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
_EXAMPLE_ASSIGN: Final = '{"topicA":[0,1],"topicB":[2,4]}'
_REFUSED: Final = {
    "auto.offset.reset": "Instead set the source option 'startingOffsets' to 'earliest' or 'latest'.",
    "key.deserializer": "Keys are bytes; cast the column.",
    "value.deserializer": "Values are bytes; cast the column.",
    "enable.auto.commit": "The source commits no offsets.",
    "interceptor.classes": "There is no Java client here.",
}
_IGNORED_IN_BATCHES: Final = (
    "maxoffsetspertrigger",
    "minoffsetspertrigger",
    "maxtriggerdelay",
    "maxbytespertrigger",
)
KNOWN: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay", "maxBytesPerTrigger", "includeHeaders", "columns", "filter", "taskBytes", "transport",
    "secondPorts", "leaseMs", "pushFilters", "startingOffsetsFromCheckpoint", "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "path", *STORE_NAMES,
)  # fmt: skip
"""All options but those of the client. Some are for Spark's own source alone, and have no effect here."""


class ScanOptions(NamedTuple):
    """The options of a query."""

    properties: Mapping[str, str]
    """The properties of the client: the options that began with ``kafka.``."""
    topics: Topics
    starting: Bound | None
    ending: Bound | None
    wanted: Projection
    sizes: TaskSizes = TaskSizes(TASK_BYTES)
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_bytes: int | None = None
    max_delay_ms: int = TRIGGER_DELAY_MS
    transport: str = AUTO
    second_ports: tuple[str, ...] = ()
    """The addresses at which brokers lend their files; empty: where their configuration says."""
    lease_ms: int = LEASE_MS
    store: Mapping[str, str] = {}
    """The configs of the store of a tiered cluster; empty: nothing is read from it."""
    takes_filters: bool = False
    """Whether Spark may push the filters of a query to the reader."""
    poll_timeout_ms: int | None = None
    """How long a task waits for offsets that are not there yet: kafkaConsumer.pollTimeoutMs."""
    checkpoint: str | None = None
    """The directory of a checkpoint of Spark's Kafka source whose offsets a new query begins with."""
    attempts: int = ATTEMPTS
    """How often a topic that does not exist is asked for before a query fails: fetchOffset.numRetries."""
    pause_ms: int = PAUSE_MS
    """The pause before the next of these attempts: fetchOffset.retryIntervalMs."""
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Options({self.topics}, {self.starting}, {self.ending})"

    @property
    def reads_store(self) -> bool:
        """Whether records may be read from the store of a tiered cluster."""
        return bool(self.store) and self.transport in (AUTO, OBJECTS)

    @property
    def servers(self) -> str:
        return self.properties["bootstrap.servers"]


def read_options(given: Mapping[str, str]) -> ScanOptions:
    """The options of a query. Raises BadOption."""
    configured = lowered(given)
    properties = properties_of(configured, _REFUSED, "consumer")
    attempts = number(configured, "fetchOffset.numRetries", least=0)
    pause_ms = number(configured, "fetchOffset.retryIntervalMs", least=0)
    wanted = _wanted(configured, properties)
    return ScanOptions(
        properties=properties,
        topics=_topics(configured),
        starting=_bound(configured, "starting"),
        ending=_bound(configured, "ending"),
        wanted=wanted,
        sizes=_sizes(configured, wanted),
        transport=word(configured, "transport", TRANSPORTS),
        second_ports=tuple(filter(None, (each.strip() for each in configured.get("secondports", "").split(",")))),
        lease_ms=number(configured, "leaseMs") or LEASE_MS,
        store=_store(configured),
        takes_filters=flag(configured, "pushFilters", default=False),
        poll_timeout_ms=number(configured, "kafkaConsumer.pollTimeoutMs"),
        checkpoint=configured.get("startingoffsetsfromcheckpoint"),
        attempts=ATTEMPTS if attempts is None else max(attempts, 1),
        pause_ms=PAUSE_MS if pause_ms is None else pause_ms,
        warnings=unknown_options(configured, KNOWN),
    )


def _store(configured: Mapping[str, str]) -> Mapping[str, str]:
    store = store_of(configured)
    if not store and configured.get("transport", "").lower() == OBJECTS:
        raise BadOption(f"transport=objects needs the store: set {STORE_NAMES[0]}, or rsm.config.* as brokers have it")
    return store


def _sizes(configured: Mapping[str, str], wanted: Projection) -> TaskSizes:
    needs_values = not {"value", names_of_columns.HEADERS}.isdisjoint((*wanted.columns, *columns_of(wanted.filter)))
    given = number(configured, "taskBytes")
    return TaskSizes(
        task_bytes=given or (TASK_BYTES if needs_values else NARROW_TASK_BYTES),
        min_tasks=number(configured, "minPartitions", most=MOST_INT),
        max_records=number(configured, "maxRecordsPerPartition"),
    )


def for_batch(options: ScanOptions, given: Mapping[str, str]) -> ScanOptions:
    """The options of a batch query, with both bounds. Raises BadOption."""
    starting = options.starting or Bound("startingOffsets", word=EARLIEST)
    ending = options.ending or Bound("endingOffsets", word=LATEST)
    if starting.word == LATEST:
        raise BadOption("starting offset can't be latest for batch queries on Kafka")
    if ending.word == EARLIEST:
        raise BadOption("ending offset can't be earliest for batch queries on Kafka")
    for bound, refused, text in (
        (starting, LATEST_OFFSET, "startingOffsets for {} can't be latest for batch queries on Kafka"),
        (ending, EARLIEST_OFFSET, "ending offset for {} can't be earliest for batch queries on Kafka"),
    ):
        for (topic, partition), offset in (bound.offsets or {}).items():
            if offset == refused:
                raise BadOption(text.format(f"{topic}-{partition}"))
    if options.checkpoint is not None:
        raise BadOption("startingOffsetsFromCheckpoint is for streaming queries")
    ignored = [key for key in given if key.lower() in _IGNORED_IN_BATCHES]
    ignored_warnings = tuple(f"{key} option ignored in batch queries" for key in ignored)
    return options._replace(starting=starting, ending=ending, warnings=options.warnings + ignored_warnings)


def for_stream(options: ScanOptions, given: Mapping[str, str]) -> ScanOptions:
    """The options of a streaming query, with its limits. Raises BadOption."""
    if options.ending is not None:
        what = "timestamp" if options.ending.offsets is None and options.ending.word is None else "offset"
        raise BadOption(f"ending {what} not valid in streaming queries")
    if options.checkpoint is not None and options.starting is not None:
        raise BadOption(f"startingOffsetsFromCheckpoint and {options.starting.option} are both set; give one of them")
    configured = lowered(given)
    max_offsets, min_offsets = number(configured, "maxOffsetsPerTrigger"), number(configured, "minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise BadOption(
            f"The value of minOffsetPerTrigger({min_offsets}) is higher than the maxOffsetsPerTrigger({max_offsets})."
        )
    return options._replace(
        starting=options.starting or Bound("startingOffsets", word=LATEST),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_bytes=number(configured, "maxBytesPerTrigger"),
        max_delay_ms=_duration_ms(configured, "maxTriggerDelay"),
    )


def _topics(configured: Mapping[str, str]) -> Topics:
    chosen = [key for key in SUBSCRIPTIONS if key in configured]
    if len(chosen) != 1:
        which = "One" if not chosen else "Only one"
        raise BadOption(
            f"{which} of the following options {'must' if not chosen else 'can'} be specified for Kafka source: "
            f"{', '.join(SUBSCRIPTIONS)}. See the docs for more details."
        )
    (key,) = chosen
    text = configured[key].strip()
    if key == "subscribepattern":
        if not text:
            raise BadOption(
                f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is {text!r}"
            )
        return matching(text)
    if key == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise BadOption(f"No topics to subscribe to as specified value for option 'subscribe' is {text!r}")
        return Subscribed(topics)
    if not text.startswith("{"):
        raise BadOption(f"No topicpartitions to assign as specified value for option 'assign' is {text!r}")
    assigned = _of_partitions(_json("assign", text, _EXAMPLE_ASSIGN), "assign", _EXAMPLE_ASSIGN)
    return Assigned(assigned)


def _of_partitions(found: Any, option: str, example: str) -> dict[str, tuple[int, ...]]:
    right = isinstance(found, dict) and all(
        isinstance(each, list) and all(type(number) is int for number in each) for each in found.values()
    )
    if not right:
        raise _not_as(option, example, json.dumps(found))
    return {topic: tuple(dict.fromkeys(each)) for topic, each in found.items()}


def _bound(configured: Mapping[str, str], end: str) -> Bound | None:
    """The bound that ``starting...`` or ``ending...`` sets; None if nothing does."""
    strategy = word(configured, "startingOffsetsByTimestampStrategy", ("error", "latest"))
    latest_if_none = end == "ending" or strategy == "latest"
    option = f"{end}Timestamp"
    if (text := configured.get(option.lower())) is not None:
        time_ms = whole(option, text.strip(), least=-MOST)
        return Bound(option, time_ms=time_ms, latest_if_none=latest_if_none)
    option = f"{end}OffsetsByTimestamp"
    if (text := configured.get(option.lower())) is not None:
        return Bound(option, times_ms=of_offsets(option, text, least=-MOST), latest_if_none=latest_if_none)
    option = f"{end}Offsets"
    if (text := configured.get(option.lower())) is None:
        return None
    text = text.strip()
    if text.lower() in (EARLIEST, LATEST):
        return Bound(option, word=text.lower())
    return Bound(option, offsets=of_offsets(option, text, least=EARLIEST_OFFSET))


def of_offsets(option: str, text: str, *, least: int) -> dict[Spot, int]:
    """The offsets, or times, of ``{topic: {partition: offset}}``. Raises BadOption."""
    found = _json(option, text, _EXAMPLE_OFFSETS)
    try:
        offsets = {
            (topic, whole("a partition", partition, least=-MOST_INT, most=MOST_INT)): offset
            for topic, each in found.items()
            for partition, offset in each.items()
        }
    except (AttributeError, BadOption):
        raise _not_as(option, _EXAMPLE_OFFSETS, text) from None
    if not all(type(offset) is int and offset >= least for offset in offsets.values()):
        raise _not_as(option, _EXAMPLE_OFFSETS, text)
    return offsets


def _json(option: str, text: str, example: str) -> Any:
    """The first value of a text. The rest is ignored, as by Spark."""
    try:
        return json.JSONDecoder().raw_decode(text.strip())[0]
    except (ValueError, RecursionError):
        raise _not_as(option, example, text) from None


def _not_as(option: str, example: str, text: str) -> BadOption:
    return BadOption(f"{option}: Expected e.g. {example}, got {text[:200]}")


def _wanted(configured: Mapping[str, str], properties: Mapping[str, str]) -> Projection:
    return Projection(
        columns=_columns(configured),
        committed_only=_isolation(properties) == "read_committed",
        fails_on_data_loss=flag(configured, "failOnDataLoss", default=True),
        filter=_filter(configured),
    )


def _isolation(properties: Mapping[str, str]) -> str:
    level = properties.get("isolation.level", "read_uncommitted").strip()
    if level not in ("read_committed", "read_uncommitted"):
        raise BadOption(f"kafka.isolation.level is read_uncommitted or read_committed, not {level[:80]!r}")
    return level


def _columns(configured: Mapping[str, str]) -> tuple[str, ...]:
    has_headers = flag(configured, "includeHeaders", default=False)
    if "columns" not in configured:
        return names_of_columns.ALL if has_headers else names_of_columns.PLAIN
    known = {name.lower(): name for name in names_of_columns.ALL}
    asked = [name.strip() for name in configured["columns"].split(",") if name.strip()]
    for name in asked:
        if name.lower() not in known:
            raise BadOption(f"columns: there is no column {name}; there are {', '.join(names_of_columns.ALL)}")
    if not asked:
        raise BadOption(f"columns names none; there are {', '.join(names_of_columns.ALL)}")
    return tuple(dict.fromkeys(known[name.lower()] for name in asked))


def _filter(configured: Mapping[str, str]) -> Filter | None:
    return parse_filter(configured["filter"]) if configured.get("filter", "").strip() else None


def _duration_ms(configured: Mapping[str, str], option: str) -> int:
    """A duration as Spark reads it: ``15m``, ``1h``, ``500ms``; a number alone has the unit ms."""
    text = configured.get(option.lower())
    if text is None:
        return TRIGGER_DELAY_MS
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise BadOption(f"{option} is a duration such as 15m, 1h or 500ms, not {text!r}")
    return int(int(match[1]) * _UNIT_MS[match[2] or "ms"])
