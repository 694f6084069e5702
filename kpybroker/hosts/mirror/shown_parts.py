"""The progress of all mirrors on this broker: it reads the progress log, lets the leaders here follow it, and is the
finder of places where it is the live broker with the lowest id.

It works for every topic that is a mirror, also while the mirror is stopped or fails over.
"""

from collections.abc import Iterator
from typing import Final

from kpybroker.hosts.mirror.held_partitions import HeldBackPartitions
from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.place_finder import PlaceFinder
from kpybroker.hosts.mirror.progress_log import ProgressLog
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.mirror_configs import MIRRORING, SOURCE, STATE, STOPPING
from kpybroker.machines.mirror import progress
from kpybroker.machines.mirror.progress import Progress
from kpybroker.runtime.io.scheduler import Timer

LOOK_MS: Final = 50
IDLE_MS: Final = 500
TIDY_MS: Final = 1_000
WHOLE_MS: Final = 500
"""The pause between two looks at all partitions while no marker is held back."""
RESTS: Final = 5
"""The pause after such a look is this many times what it took."""


class ShownParts:
    """The shown parts of this cluster's mirrors."""

    def __init__(self, parts: MirrorParts) -> None:
        self._parts = parts
        self.held = HeldBackPartitions(parts, self._soon)
        self.known = Progress()
        self._log = ProgressLog(parts, self._take, self._lost, self._step)
        self._finders: dict[str, PlaceFinder] = {}
        self._timer: Timer | None = None
        self._steps = self._follows = self._finds = False
        self._tidied_ms = 0.0
        self._whole_ms = self._soon_whole_ms = 0.0

    def start(self) -> None:
        """Begin to read the progress log."""
        if self._timer is None:
            self._look()

    def stop(self) -> None:
        """Read it no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def finder(self, mirror: str) -> PlaceFinder | None:
        """The finder of a mirror's places; None where another broker is."""
        return self._finders.get(mirror)

    def _take(self, value: bytes) -> None:
        found = self.known.apply(value)
        if found is None:
            self._whole_ms = 0.0
        else:
            mirror, token, parts = found
            finder = self._finders.get(mirror)
            if finder is not None:
                finder.report(token, parts)

    def _lost(self) -> None:
        self.known.clear()
        self._finders.clear()

    def _look(self) -> None:
        has_work = bool(self._mirrors()) or not self._log.is_idle
        self._timer = self._parts.scheduler.call_later(LOOK_MS if has_work else IDLE_MS, self._look)
        self._log.look(creates=has_work and self._parts.is_lowest)

    def _step(self) -> None:
        """Act on what is known now, if that is all that was written."""
        if self._log.is_current:
            is_idle = self._log.is_idle  # else it cannot be written, perhaps, and reports would only pile up
            if not self._follows:
                self._follows = True
                self._parts.scheduler.in_pieces(self._follow(reports=is_idle))
            if is_idle:
                self._find(self._mirrors())

    def _follow(self, *, reports: bool) -> Iterator[None]:
        began_ms = self._parts.scheduler.monotonic_ms()
        is_whole = began_ms >= (self._soon_whole_ms if any(self.known.wanted.values()) else self._whole_ms)
        try:
            yield from self.held.follow(self.known, self._log.write, reports=reports, is_whole=is_whole)
        finally:
            self._follows = False
            if is_whole:
                now_ms = self._parts.scheduler.monotonic_ms()
                self._soon_whole_ms = now_ms + RESTS * (now_ms - began_ms)
                self._whole_ms = max(now_ms + WHOLE_MS, self._soon_whole_ms)

    def changed(self) -> None:
        """Look at all partitions again: leaderships or configs have changed."""
        self._whole_ms = 0.0
        self._soon()

    def _soon(self) -> None:
        """Act on what else is new."""
        if not self._steps:
            self._steps = True
            self._parts.scheduler.call_soon(self._stepped)

    def _stepped(self) -> None:
        self._steps = False
        if self._timer is not None:
            self._step()

    def _find(self, mirrors: set[str]) -> None:
        if not self._parts.is_lowest:
            self._finders.clear()
            return
        for name in [each for each in self._finders if each not in mirrors]:
            del self._finders[name]
        for name in mirrors - self._finders.keys():
            self._finders[name] = PlaceFinder(self._parts, name, self.known, self._soon)
        if not self._finds:
            self._finds = True
            self._parts.scheduler.in_pieces(self._find_in_pieces())
        now_ms = self._parts.scheduler.monotonic_ms()
        if now_ms > self._tidied_ms + TIDY_MS:
            self._tidied_ms = now_ms
            self._log.write(map(progress.forget, sorted(self._stale())))
            self._log.rest(self.known.records)

    def _find_in_pieces(self) -> Iterator[None]:
        try:
            for finder in list(self._finders.values()):
                yield from finder.find(self._log.write)
        finally:
            self._finds = False

    def _mirrors(self) -> set[str]:
        image = self._parts.image
        return {
            configs[SOURCE]
            for (kind, _), configs in image.configs.items()
            if kind == TOPIC_RESOURCE and SOURCE in configs
        }

    def _stale(self) -> set[bytes]:
        """The topics of which something is known, and that are no mirrors any more, or none yet."""
        image, known = self._parts.image, {place[0] for place in (*self.known.places, *self.known.done)}
        stale = set()
        for topic_id in known | self.known.cut:
            topic = image.topics_by_id.get(topic_id)
            configs = {} if topic is None else image.configs_of(TOPIC_RESOURCE, topic.name)
            if SOURCE not in configs or configs.get(STATE, MIRRORING) not in (MIRRORING, STOPPING):
                stale.add(topic_id)
        return stale
