"""Configs with their documentation, and those of this node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final

from kpybroker.machines.console.config_words import ABOUT, words_of
from kpybroker.machines.console.listing import Keys

TOPIC_SOURCE, DEFAULT_SOURCE = 1, 5
OF_BROKER: Final = "this broker"
OF_ALL_BROKERS: Final = "the default of all brokers"
SOURCES: Final = {
    TOPIC_SOURCE: "this topic",
    2: OF_BROKER,
    3: OF_ALL_BROKERS,
    4: "the broker's file",
    DEFAULT_SOURCE: "default",
}
"""The layers of a config, by Kafka's number."""
TYPES: Final = ("", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
"""The types of configs, by Kafka's number."""


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One config with Kafka's documentation."""

    name: str
    value: str | None
    words: str
    """The value in words, such as ``7 days``; empty where they would say no more."""
    source: str
    default: str | None
    default_words: str
    type: str
    documentation: str
    is_set: bool
    is_dynamic: bool
    """Whether it can be changed while its node runs."""

    @property
    def is_stored(self) -> bool:
        """Whether it is set on this node or for all brokers, where it can be changed and removed."""
        return self.source in (OF_BROKER, OF_ALL_BROKERS)

    @property
    def is_of_all(self) -> bool:
        """Whether it is set for all brokers."""
        return self.source == OF_ALL_BROKERS

    @property
    def typed(self) -> str:
        """The value as a person would type it."""
        return self.words if self.words and not self.words.startswith(ABOUT) else self.value or ""


@dataclass(frozen=True, slots=True)
class ConfigsPage:
    """The configs of this node with Kafka's documentation, those that are set first. The values of secrets are null."""

    node_id: int
    search: str
    is_full: bool
    """Whether configs that have their default are listed, too."""
    total: int
    """The configs of all names that were searched, with those that have their default."""
    configs: tuple[ConfigRow, ...]
    dynamic: tuple[str, ...]
    """The names of all configs that can be changed while the node runs, without those that are secret."""
    hidden: str | None
    """Why the configs are not shown; None if they are."""
    may_configure: bool


def config_row(
    name: str, values: Mapping[str, str | None], source: int, type_name: str, text: str, *, is_dynamic: bool = True
) -> ConfigRow:
    """The row of a config. ``values`` has its value, the default below that under ``default``, and under
    ``default_name`` the config that the default is from: ``log.retention.hours`` of ``log.retention.ms``, say."""
    value, default = values.get("value"), values.get("default")
    return ConfigRow(
        name,
        value,
        words_of(name, type_name, value),
        SOURCES.get(source, "unknown"),
        default,
        words_of(values.get("default_name") or name, type_name, default),
        type_name,
        plain_text(text),
        source == TOPIC_SOURCE,
        is_dynamic,
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


CONFIG_KEYS: Final[Keys[ConfigRow]] = {
    "config": lambda row: row.name,
    "value": lambda row: row.value,
    "from": lambda row: row.source,
    "type": lambda row: row.type,
}
"""The columns by which a viewer sorts the configs."""
