"""What this node is in an epoch. Each role is a small object that holds just what that role knows."""

from typing import NamedTuple

from kpywire.uuid import ZERO_UUID

NO_NODE = -1


class ElectionState(NamedTuple):
    """What must survive a crash: the epoch, whom this node voted for in it, who was elected (``quorum-state``)."""

    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE
    voted_directory_id: bytes = ZERO_UUID


class Unattached:
    """Knows an epoch, but no leader of it; has voted for another or for nobody."""

    __slots__ = ("election",)

    def __init__(self, election: ElectionState) -> None:
        self.election = election


class Candidate:
    """Stands for election. Its own vote counts once it is on disk."""

    __slots__ = ("election", "granted")

    def __init__(self, election: ElectionState) -> None:
        self.election = election
        self.granted: list[int] = []


class Leader:
    """Leads the epoch. What is on its own disk counts towards the majority; what is only written does not."""

    __slots__ = ("election", "epoch_start_offset", "granted", "high_watermark", "synced_offset")

    def __init__(self, election: ElectionState, epoch_start_offset: int, granted: list[int]) -> None:
        self.election = election
        self.epoch_start_offset = epoch_start_offset
        self.granted = granted
        self.synced_offset = epoch_start_offset
        self.high_watermark: int | None = None


class Resigned:
    """Led, and cannot any more: its disk failed, or it is stopping."""

    __slots__ = ("election",)

    def __init__(self, election: ElectionState) -> None:
        self.election = election


Role = Unattached | Candidate | Leader | Resigned
