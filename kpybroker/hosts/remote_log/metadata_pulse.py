"""The sign that this node still hears of the cluster: its metadata go on (in KRaft mode at least every 500 ms).

A node that is cut off may believe that it leads what another one leads by now. It must not judge what is superfluous in
a store that others still write to. In ZooKeeper mode there is no such sign, so there this is always silent.
"""

from typing import Final

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.runtime.io.scheduler import Scheduler

ADVANCED_MS: Final = 10_000.0
_NEVER_MS: Final = -1e18


class MetadataPulse:
    """The time when the cluster's metadata were last seen to go on."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._next_offset = -1
        self._advanced_ms = _NEVER_MS

    def note(self, image: MetadataImage) -> None:
        """Note a committed change."""
        if image.next_offset > self._next_offset:
            self._next_offset, self._advanced_ms = image.next_offset, self._scheduler.monotonic_ms()

    @property
    def beats(self) -> bool:
        """Whether the metadata went on in the last ten seconds."""
        return self._scheduler.monotonic_ms() - self._advanced_ms <= ADVANCED_MS
