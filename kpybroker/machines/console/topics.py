"""The list of topics, and one topic with its partitions, configs and readers. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final

from kpybroker.machines.console.retention import RetentionDeletion
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.metadata.topic_name import INTERNAL
from kpywire.uuid import to_string

TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
SOURCES: Final = {
    TOPIC_SOURCE: "this topic",
    2: "this broker",
    3: "the default of all brokers",
    4: "the broker's file",
    DEFAULT_SOURCE: "default",
}
"""The layers of a config, by Kafka's number."""
TYPES: Final = ("", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
"""The types of configs, by Kafka's number."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic in the list. Sizes are of the partitions whose log is open on this node."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    replication: int
    without_leader: int
    under_replicated: int
    local_bytes: int
    local_records: int
    """The offsets between log start and high watermark: more than the records of a compacted topic."""


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """A page of the topics that the viewer may see."""

    search: str
    with_internal: bool
    page: int
    pages: int
    total: int
    topics: tuple[TopicRow, ...]
    may_create: bool


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition. Offsets are None where another node leads and no replica here has been used."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None
    bytes: int | None
    is_here: bool
    next_deletion: RetentionDeletion | None
    trouble: str | None


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One config with Kafka's documentation."""

    name: str
    value: str | None
    source: str
    default: str | None
    type: str
    documentation: str
    is_set: bool


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A group or a reader without one, and what it has not read yet of the partitions led here."""

    name: str
    is_group: bool
    partitions: int
    lag: int | None
    """None where a group has committed nothing."""
    unknown: int
    """The partitions that members of the group read, and for which it has committed nothing."""
    lag_s: float | None


@dataclass(frozen=True, slots=True)
class TopicPage:
    """One topic."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionRow, ...]
    page: int
    pages: int
    total_partitions: int
    configs: tuple[ConfigRow, ...]
    configs_hidden: str | None
    """Why the configs are not shown; None if they are."""
    readers: tuple[TopicReader, ...]
    readers_left_out: int
    may_configure: bool
    may_read: bool
    may_write: bool


def is_wanted(name: str, search: str, *, with_internal: bool) -> bool:
    """Whether a topic belongs in the list."""
    return (with_internal or not is_internal(name)) and search.lower() in name.lower()


def is_internal(name: str) -> bool:
    """Whether a topic is Kafka's own."""
    return name in INTERNAL


def topic_row(topic: Topic, sizes: Callable[[str], tuple[int, int]]) -> TopicRow:
    """The row of a topic. ``sizes`` gives bytes and records on this node."""
    partitions = topic.partitions.values()
    stored_bytes, records = sizes(topic.name)
    return TopicRow(
        topic.name,
        to_string(topic.id),
        is_internal(topic.name),
        len(partitions),
        max((len(each.replicas) for each in partitions), default=0),
        sum(each.leader < 0 for each in partitions),
        sum(len(each.isr) < len(each.replicas) - len(each.adding_replicas) for each in partitions),
        stored_bytes,
        records,
    )


def config_row(name: str, values: Mapping[str, str | None], source: int, type_name: str, text: str) -> ConfigRow:
    """The row of a config. ``values`` has its value, and the default below the topic's own under ``default``."""
    plain = plain_text(text)
    return ConfigRow(
        name,
        values.get("value"),
        SOURCES.get(source, "unknown"),
        values.get("default"),
        type_name,
        plain,
        source == TOPIC_SOURCE,
    )


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("br", "p", "li", "ul"):
            self.parts.append(" ")


def plain_text(html: str) -> str:
    """Kafka's documentation without its markup."""
    parser = _Text()
    parser.feed(html)
    parser.close()
    return " ".join("".join(parser.parts).split())
