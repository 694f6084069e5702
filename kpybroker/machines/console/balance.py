"""The page of the balancer: its mode, what it does, and its last plan. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from kpybroker.machines.balance.standing import BalancerStanding


@dataclass(frozen=True, slots=True)
class BalancePage:
    """The balancer of the cluster, as the node of the active controller knows it."""

    mode: str
    controller: int | None
    """The node whose controller is active; None if none is known."""
    is_here: bool
    """Whether that is this node: others do not know the plan."""
    elsewhere: str | None
    """The address of that node's console, of another node; None if it is unknown."""
    standing: BalancerStanding
    may_change: bool
    """Whether this console may change the mode, and the viewer too."""


def visible_to(standing: BalancerStanding, may_see: Callable[[str], bool]) -> BalancerStanding:
    """A standing without the topics that a viewer may not know."""
    advice = standing.advice
    if advice is None:
        return standing
    moves = tuple(each for each in advice.moves if may_see(each.topic))
    hot = tuple(each for each in advice.hot if may_see(each.rpartition("-")[0]))
    hidden = len(advice.moves) - len(moves)
    shown = replace(advice, moves=moves, hot=hot, moves_left_out=advice.moves_left_out + hidden)
    return replace(standing, advice=shown)
