"""A broker from the point of view of ``describe`` and ``alter``: its configuration, the configs stored in the metadata,
its loggers."""

from collections.abc import Container, Mapping
from typing import Protocol

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.loggers import Loggers


class Stored(Protocol):
    """Configs in the cluster's metadata (``MetadataImage``)."""

    @property
    def topics(self) -> Container[str]:
        """All topics, by name."""

    def configs_of(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The configs that are set on a resource; empty if none is."""


class Configured(Protocol):
    """A holder of the config and the image, both of which may be replaced as time goes by."""

    @property
    def config(self) -> BrokerConfig:
        """The present config."""

    @property
    def image(self) -> Stored:
        """The newest metadata."""

    @property
    def console_url(self) -> str:
        """The address of this node's console; empty if it has none."""


class BrokerView:
    """The view of one broker; it reads the present state at every call."""

    def __init__(self, broker: Configured) -> None:
        self._broker = broker
        self._loggers = Loggers()

    @property
    def config(self) -> BrokerConfig:
        """The present config of this broker, dynamic configs included."""
        return self._broker.config

    @property
    def console_url(self) -> str:
        """The address of this node's console; empty if it has none."""
        return self._broker.console_url

    def has_topic(self, name: str) -> bool:
        """Whether a topic exists."""
        return name in self._broker.image.topics

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The stored configs of a resource."""
        return self._broker.image.configs_of(resource_type, name)

    def logger_levels(self) -> Mapping[str, str]:
        """The levels of the loggers of this process."""
        return self._loggers.levels()

    def set_logger_level(self, name: str, level: str | None) -> None:
        """Set the level of a logger of this process."""
        self._loggers.set_level(name, level)
