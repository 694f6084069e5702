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
        count = max((len(line.values) for plot in self.history.plots for line in plot.lines), default=0)
        return range(count - 1, -1, -max(1, count // MOST_ROWS))
