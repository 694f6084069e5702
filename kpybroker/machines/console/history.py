"""The page of a node's history. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.plots import TimePlots

MOST_ROWS: Final = 30


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The history of a node, over one range of time."""

    node_id: int
    history: TimePlots

    @property
    def rows(self) -> range:
        """The numbers of the values that the table has, the latest first."""
        count = len(self.history.plots[0].lines[0].values)
        return range(count - 1, -1, -max(1, count // MOST_ROWS))
