"""A bounded table of what the shares of a quota use.

A share that nobody used for an hour is forgotten, as in Kafka. If the table is full, the share that was not used for
the longest time is forgotten too.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from kpybroker.machines.quotas.client_quotas import Share

FORGOTTEN_MS: Final = 3_600_000
MOST_SHARES: Final = 10_000

T = TypeVar("T")


class _Kept(Generic[T]):
    __slots__ = ("used", "used_ms")

    def __init__(self, used: T, now_ms: int) -> None:
        self.used = used
        self.used_ms = now_ms


class Shares(Generic[T]):
    """The shares in the order of their last use."""

    def __init__(self, new: Callable[[], T]) -> None:
        self._new = new
        self._kept: dict[Share, _Kept[T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, share: Share, now_ms: int) -> T:
        """The use of a share. It counts as used now."""
        kept = self._kept.pop(share, None)
        if kept is None:
            self._make_room(now_ms)
            kept = _Kept(self._new(), now_ms)
        elif now_ms - kept.used_ms >= FORGOTTEN_MS:
            kept.used = self._new()
        kept.used_ms = max(now_ms, kept.used_ms)
        self._kept[share] = kept
        return kept.used

    def latest(self, most: int) -> Iterator[tuple[Share, T]]:
        """The shares that were used last."""
        for share in islice(reversed(self._kept), most):
            yield share, self._kept[share].used

    def _make_room(self, now_ms: int) -> None:
        kept = self._kept
        while kept:
            oldest = next(iter(kept))
            if len(kept) < MOST_SHARES and now_ms - kept[oldest].used_ms < FORGOTTEN_MS:
                break
            del kept[oldest]
