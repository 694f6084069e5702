"""The quorum of controllers. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuorumNode:
    """A voter or an observer, as the leader knows it."""

    id: int
    role: str
    end_offset: int
    lag: int
    last_fetch_ms: int
    last_caught_up_ms: int
    is_here: bool


@dataclass(frozen=True, slots=True)
class FinalizedFeature:
    """A finalised feature and its level."""

    name: str
    level: int


@dataclass(frozen=True, slots=True)
class QuorumPage:
    """The quorum, and this node's place in it."""

    leader: int | None
    epoch: int
    high_watermark: int
    local_role: str
    local_end_offset: int
    nodes: tuple[QuorumNode, ...]
    features: tuple[FinalizedFeature, ...]
    hidden: str | None
    """Why the leader did not say more; None if it did."""
