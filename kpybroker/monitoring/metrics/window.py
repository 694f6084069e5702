"""Quantiles of the last minute, read from counters that only grow.

Every ten seconds the buckets are copied; a quantile is taken over what was added since the oldest copy that is kept.
Kafka's own histograms weigh the last five minutes exponentially: both describe the present, and this one forgets
sooner.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

SLICE_MS: Final = 10_000
SLICES: Final = 6
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
QUANTILE_LABELS: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""The labels of Kafka's 50th to 999th percentile, as the JMX exporter's rules write them."""


def quantiles_ms(buckets: Sequence[int], zeros: int = 0) -> list[float]:
    """The `QUANTILES` of times in buckets per half octave of nanoseconds, in ms; ``zeros`` took no time at all."""
    total = sum(buckets) + zeros
    if total <= 0:
        return [0.0] * len(QUANTILES)
    found: list[float] = []
    bucket, below, here = -1, 0, zeros
    for quantile in QUANTILES:
        wanted = quantile * total
        while below + here < wanted and bucket < len(buckets) - 1:
            below += here
            bucket += 1
            here = buckets[bucket]
        found.append(_between(bucket, (wanted - below) / here if here else 1.0))
    return found


def quantiles_of(counts: Sequence[int]) -> list[float]:
    """The `QUANTILES` of whole numbers, of which ``counts`` says how often each came."""
    total, found, number, so_far = sum(counts), [], 0, counts[0]
    for quantile in QUANTILES:
        while so_far < quantile * total:
            number += 1
            so_far += counts[number]
        found.append(float(number))
    return found


def _between(bucket: int, share: float) -> float:
    """The time in ms below which this share of a bucket lies, if the bucket is evenly filled."""
    if bucket <= 0:
        return 0.0
    low, high = math.pow(2.0, (bucket - 1) / 2), math.pow(2.0, bucket / 2)
    return (low + (high - low) * min(max(share, 0.0), 1.0)) / 1e6


class MinuteWindow:
    """The last minute of one list of buckets."""

    __slots__ = ("_copies",)

    def __init__(self) -> None:
        self._copies: deque[tuple[int, ...]] = deque(maxlen=SLICES)

    def turn(self, buckets: Sequence[int]) -> None:
        """Note that ten seconds have passed."""
        self._copies.append(tuple(buckets))

    def recent(self, buckets: Sequence[int]) -> Sequence[int]:
        """The recent additions; all of them while there is no copy yet."""
        if not self._copies:
            return buckets
        return [now - before for now, before in zip(buckets, self._copies[0], strict=True)]


class MinuteWindows:
    """The windows of many lists, by a key; they turn together."""

    def __init__(self) -> None:
        self._windows: dict[object, MinuteWindow] = {}

    def turn(self, all_buckets: dict[object, Sequence[int]]) -> None:
        """Note that ten seconds have passed. These are the lists now; others are forgotten."""
        for gone in self._windows.keys() - all_buckets.keys():
            del self._windows[gone]
        for key, buckets in all_buckets.items():
            window = self._windows.get(key)
            if window is None:
                window = self._windows[key] = MinuteWindow()
                window.turn((0,) * len(buckets))
            window.turn(buckets)

    def recent(self, key: object, buckets: Sequence[int]) -> Sequence[int]:
        """The recent additions to this list."""
        window = self._windows.get(key)
        return buckets if window is None else window.recent(buckets)
