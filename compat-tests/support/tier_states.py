"""The tiered storage of a node as metrics and the console see it, with values that a test chooses."""

from collections.abc import Iterator
from typing import Any

from kpybroker.hosts.remote_log.figures import NOTHING_BEHIND, ThrottleTimes, TierFigures, TierState
from kpybroker.machines.remote_log.copying import Wait


def tier_state(topic: str, partition: int = 0, **changes: Any) -> TierState:
    """The state of a partition of which everything is copied, with changes."""
    state = TierState(
        topic=topic,
        partition=partition,
        log_start=0,
        local_log_start=0,
        end=0,
        copied=-1,
        local_bytes=0,
        remote_bytes=0,
        segments=0,
        copy_lag=NOTHING_BEHIND,
        delete_lag=NOTHING_BEHIND,
        wait=Wait.NOTHING,
        reason=Wait.NOTHING.value,
        until_ms=None,
        last_error="",
        unfinished=0,
    )
    return state._replace(**changes)


class FixedTiers:
    """A tiered storage that does nothing, in place of that of a node."""

    def __init__(self, *states: TierState, store: str = "memory:", store_error: str = "") -> None:
        self.figures = TierFigures()
        self.store = store
        self.store_error = store_error
        self.throttled = ThrottleTimes()
        self._states = states

    def states(self) -> Iterator[TierState]:
        return iter(self._states)

    def throttle_times(self) -> ThrottleTimes:
        return self.throttled

    # A node asks these, too: nothing is in the store

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def apply(self, *_changes: object) -> None: ...

    def copied_offset(self, _replica: object) -> int:
        return -1

    def find_timestamp(self, *_asked: object) -> None:
        return None
