"""The configs of this node. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.topics import ConfigRow


@dataclass(frozen=True, slots=True)
class ConfigsPage:
    """The configs of this node with Kafka's documentation. The values of secrets are null."""

    node_id: int
    search: str
    is_full: bool
    """Whether configs that have their default are listed, too."""
    total: int
    """The configs of all names that were searched, with those that have their default."""
    configs: tuple[ConfigRow, ...]
    hidden: str | None
    """Why the configs are not shown; None if they are."""


CONFIG_KEYS: Final[Keys[ConfigRow]] = {
    "config": lambda row: row.name,
    "value": lambda row: row.value,
    "from": lambda row: row.source,
    "type": lambda row: row.type,
}
"""The columns by which a viewer sorts the configs."""
