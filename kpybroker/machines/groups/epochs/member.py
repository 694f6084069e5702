"""The epochs of members, and targets, of consumer, share and streams groups."""

from collections.abc import Mapping
from typing import Any, Final

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""The epoch of a static member that left for a while. It keeps what it has until it returns or its session ends."""

SESSION: Final = "session"
REBALANCE: Final = "rebalance"
"""The purposes of the timers that members of several kinds have."""

Target = Mapping[bytes, tuple[int, ...]]
"""The partitions of each topic id that the assignor gave to a member."""

NOTHING: Final[Any] = {}
