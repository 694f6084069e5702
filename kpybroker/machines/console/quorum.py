"""The quorum of controllers, and the features of the cluster with the levels that its nodes support. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.metadata.broker import FeatureRange
from kpybroker.machines.metadata.features import NEVER_LOWERED, SUPPORTED
from kpybroker.machines.metadata.image import KRAFT_VERSION, MetadataImage
from kpybroker.machines.metadata.metadata_version import FEATURE_NAME, name_of

NONE: Final = FeatureRange(0, 0)


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A voter or an observer, as the leader knows it."""

    id: int
    role: str
    end_offset: int
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int
    behind_s: float | None
    """How long ago it had everything that the leader had; None if the leader has not seen that."""
    is_here: bool


@dataclass(frozen=True, slots=True)
class FeatureLevel:
    """A level of a feature."""

    level: int
    name: str


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """A feature: its level now, and the levels that every node supports."""

    name: str
    now: FeatureLevel
    supported: tuple[FeatureLevel, ...]
    """The lowest and the highest; the same one twice if there is no other."""
    upgrade: FeatureLevel | None
    """The highest level above the present one; None if there is none."""
    limit: str
    """The node that does not support a level which others do; empty if all support the same."""
    is_lowered: bool
    """Whether a lower level can be possible at all."""


@dataclass(frozen=True, slots=True)
class QuorumPage:
    """The quorum, and this node's place in it."""

    leader: int | None
    epoch: int
    high_watermark: int
    local_role: str
    local_end_offset: int
    nodes: tuple[QuorumNode, ...]
    features: tuple[FeatureRow, ...]
    may_change: bool
    """Whether this console may change the levels, and the viewer too."""
    hidden: str | None
    """Why the leader did not say more; None if it did."""


def features_of(image: MetadataImage, kraft_version: int) -> tuple[FeatureRow, ...]:
    """All features that are on, or that every node supports, by name."""
    levels = {**image.finalized_features, KRAFT_VERSION: kraft_version}
    nodes: list[tuple[str, Mapping[str, FeatureRange]]] = [
        *((f"broker {each.id}", each.features) for each in image.brokers.values()),
        *((f"controller {each.id}", each.features) for each in image.controllers.values()),
    ]
    return tuple(_feature(name, levels.get(name, 0), nodes) for name in sorted({*SUPPORTED, *levels}))


def _feature(name: str, now: int, nodes: list[tuple[str, Mapping[str, FeatureRange]]]) -> FeatureRow:
    ranges = [("this node", SUPPORTED.get(name, NONE)), *((node, each.get(name, NONE)) for node, each in nodes)]
    lowest = max(each.lowest for _, each in ranges)
    highest = min(each.highest for _, each in ranges)
    most = max(each.highest for _, each in ranges)
    limit = ""
    if highest < most:
        node = next(node for node, each in ranges if each.highest == highest)
        limit = f"{node} supports no level above {_level(name, highest).name}"
    upgrade = _level(name, highest) if highest > now else None
    levels = (_level(name, lowest), _level(name, max(lowest, highest)))
    return FeatureRow(name, _level(name, now), levels, upgrade, limit, name != KRAFT_VERSION and now > lowest)


def _level(name: str, level: int) -> FeatureLevel:
    """A level with the name by which Kafka knows it."""
    text = str(level)
    if name == FEATURE_NAME:
        try:
            text = name_of(level)
        except KeyError:
            text = "none" if not level else f"level {level}"
    return FeatureLevel(level, text)


def warning_of(name: str) -> str:
    """The sentence about lowering a feature."""
    if name in NEVER_LOWERED:
        return "Lowering is refused once the metadata hold what the lower level cannot."
    return "Lowering is unsafe: what only the higher level knows is lost."
