"""The dead letters of a share group (KIP-1191): found in its dead-letter topic, and replayed to where they came from.

A dead letter names a record. It has the key and value of that record only where the group copies them; a replay reads
the record again from its topic, and takes the copy where the record is gone. It keeps the headers of the dead letter,
so that readers see that a record was replayed.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from kpybroker.client import config_requests, transactions
from kpybroker.client.appending import Appender
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.config_requests import ConfigResource, ConfigResourceType
from kpybroker.client.reader import FetchSettings, RecordReader
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.share.dead_letters import (
    AUTO_CREATE,
    DELIVERY_COUNT,
    ENABLE,
    GROUP,
    MESSAGE,
    OFFSET,
    PARTITION,
    PREFIX,
    TOPIC,
    TopicRules,
    refusal,
)
from kpywire import error_codes
from kpywire.record import Record, build_batch

NAME = "errors.deadletterqueue.topic.name"
LOST = frozenset((error_codes.OFFSET_OUT_OF_RANGE, error_codes.UNKNOWN_TOPIC_OR_PARTITION))


class DeadLetter(NamedTuple):
    """A dead letter, and the record that it names."""

    spot: Spot
    offset: int
    timestamp_ms: int
    source: Spot
    source_offset: int
    deliveries: int
    reason: str
    record: Record

    @property
    def place(self) -> str:
        """The place of the dead letter, as users name it."""
        return f"{self.spot}@{self.offset}"

    @property
    def has_copy(self) -> bool:
        """Whether the dead letter has a key or a value."""
        return self.record.key is not None or self.record.value is not None


def topic_of(client: Client, group: str) -> str | None:
    """The dead-letter topic of a group, if it has one. Raises KafkaError."""
    found = config_requests.describe(client, ConfigResource(ConfigResourceType.GROUP, group), [NAME])
    return next((each.value for each in found if each.name == NAME), None) or None


def ends(client: Client, topic: str) -> dict[Spot, tuple[int, int]]:
    """The first and the next offset of each partition of a topic; nothing if it is not there. Raises KafkaError."""
    (found,) = client.topics([topic])
    if found.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        return {}
    spots = [Spot(topic, each.partition_index) for each in found.partitions]
    first, last = (
        client.list_offsets(dict.fromkeys(spots, timestamp)) for timestamp in (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP)
    )
    return {spot: (first[spot], last[spot]) for spot in sorted(spots)}


class Kept(NamedTuple):
    """The dead-letter topic of a group, how many records it has (those of all groups that write there), and why it gets
    none, in Kafka's words."""

    topic: str
    records: int
    refusal: str | None


def kept(client: Client, group: str) -> Kept | None:
    """The dead-letter topic of a group; None if it has none, or the user may not see that. Raises Unreachable."""
    try:
        topic = topic_of(client, group)
        if topic is None:
            return None
        bounds = ends(client, topic)
        return Kept(topic, sum(last - first for first, last in bounds.values()), _refusal(client, group, topic, bounds))
    except KafkaError:
        return None


def _refusal(client: Client, group: str, topic: str, bounds: Mapping[Spot, object]) -> str | None:
    """The reason why a topic gets no dead letters of a group; None if it does, or if the user may not see configs."""
    broker = ConfigResource(ConfigResourceType.BROKER, str(client.nodes()[0].node_id))
    with suppress(KafkaError):
        configs = {
            each.name: each.value or "" for each in config_requests.describe(client, broker, [PREFIX, AUTO_CREATE])
        }
        if bounds:
            own = config_requests.describe(client, ConfigResource(ConfigResourceType.TOPIC, topic), [ENABLE])
            configs |= {each.name: each.value or "" for each in own}
        if PREFIX in configs:
            is_enabled, is_made = (configs.get(name) == "true" for name in (ENABLE, AUTO_CREATE))
            return refusal(group, topic, TopicRules(bool(bounds), is_enabled, is_made, configs[PREFIX]))
    return None


def letters(client: Client, topic: str, group: str) -> Iterator[DeadLetter]:
    """The dead letters of a group that its topic has now. Raises KafkaError, Unreachable."""
    every = client.retrying(lambda: ends(client, topic))
    left = {spot: bounds for spot, bounds in every.items() if bounds[0] < bounds[1]}
    reader = RecordReader(
        client, {spot: first for spot, (first, _) in left.items()}, fetching=FetchSettings(reset="earliest")
    )
    while reader.positions:
        for found in reader.poll():
            if found.record.offset < left[found.spot][1]:
                letter = _read(found.spot, found.record)
                if letter is not None and (GROUP, group.encode()) in found.record.headers:
                    yield letter
        reader.positions = {spot: at for spot, at in reader.positions.items() if at < left[spot][1]}


def _read(spot: Spot, record: Record) -> DeadLetter | None:
    """A record as a dead letter; None if it is something else."""
    texts = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    with suppress(KeyError, ValueError):
        source = Spot(texts[TOPIC], int(texts[PARTITION]))
        deliveries = int(texts.get(DELIVERY_COUNT, 0))
        reason = texts.get(MESSAGE, "")
        return DeadLetter(spot, record.offset, record.timestamp, source, int(texts[OFFSET]), deliveries, reason, record)
    return None


def original(client: Client, letter: DeadLetter) -> Record | None:
    """The record that a dead letter names, with the headers of both: as its topic has it, or the copy; None if it is
    gone and was not copied. Raises KafkaError, Unreachable."""
    found = _read_again(client, letter.source, letter.source_offset)
    if found is None:
        found = letter.record if letter.has_copy else None
    if found is None:
        return None
    named = tuple(each for each in found.headers if each not in letter.record.headers)
    return Record(timestamp=found.timestamp, key=found.key, value=found.value, headers=named + letter.record.headers)


def _read_again(client: Client, spot: Spot, offset: int) -> Record | None:
    try:
        first, last = ends(client, spot.topic).get(spot, (0, 0))
        if not first <= offset < last:
            return None
        for found in RecordReader(client, {spot: offset}).poll():
            return found.record if found.record.offset == offset else None
    except KafkaError as error:
        if error.code not in LOST:
            raise
    return None


def replay(client: Client, found: Iterable[tuple[DeadLetter, Record]]) -> Iterator[DeadLetter]:
    """Produce records to the partitions that they came from, each once; the dead letters of those that were. Raises
    KafkaError, Unreachable."""
    appender: Appender | None = None
    for letter, record in found:
        if appender is None:
            appender = Appender(client, transactions.begin(client, None))
        appender.append({letter.source: [build_batch([record])]})
        yield letter
