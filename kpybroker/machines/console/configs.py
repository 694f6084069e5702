"""Configs with their documentation, and those of this node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Final

from kpybroker.machines.console.config_words import ABOUT, words_of

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
    hidden: str | None
    """Why the configs are not shown; None if they are."""


def config_row(name: str, values: Mapping[str, str | None], source: int, type_name: str, text: str) -> ConfigRow:
    """The row of a config. ``values`` has its value, and the default below the topic's own under ``default``."""
    value, default = values.get("value"), values.get("default")
    return ConfigRow(
        name,
        value,
        words_of(name, type_name, value),
        SOURCES.get(source, "unknown"),
        default,
        words_of(name, type_name, default),
        type_name,
        plain_text(text),
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
