"""The mirrors of this broker: one `RunningMirror` for each that ``kpybroker.mirrors`` names, while it is named."""

from collections.abc import Iterable, Iterator
from typing import Final

from kpybroker.hosts.mirror.parts import MirrorParts
from kpybroker.hosts.mirror.running_mirror import RunningMirror
from kpybroker.hosts.mirror.shown_parts import ShownParts
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.mirror.mirror import mirrors_of
from kpybroker.runtime.io.scheduler import Submit

THREADS: Final = 3
"""The threads of a mirror: one for the metadata of its source, one for groups, one for transactions."""


class Mirrors:
    """All mirrors of one broker."""

    def __init__(self, parts: MirrorParts) -> None:
        self._parts = parts
        self.shown = ShownParts(parts)
        self._running: dict[str, RunningMirror] = {}
        self._threads: dict[str, Submit] = {}
        """The threads that read the source of each mirror. They are kept, since a mirror may begin again."""

    def __iter__(self) -> Iterator[RunningMirror]:
        return iter(self._running.values())

    @property
    def carrier_id(self) -> int:
        """The broker that carries groups over; -1 without one."""
        return self._parts.lowest_id

    def run(self, entries: Iterable[str]) -> None:
        """Run the mirrors that ``kpybroker.mirrors`` names: begin those that are new, and end all others."""
        named = mirrors_of(entries)
        for name, running in list(self._running.items()):
            if named.get(name) != running.mirror:
                self._running.pop(name).stop()
        for name, mirror in named.items():
            if name not in self._running:
                if name not in self._threads:
                    self._threads[name] = self._parts.scheduler.pool(f"mirror-{name}", THREADS)
                self._running[name] = RunningMirror(self._parts, mirror, self._threads[name], self.shown)
                self._running[name].start()
        self.shown.start()

    def apply(self, delta: MetadataDelta) -> None:
        """Follow a change of the metadata, which the replicas have followed already."""
        topics = {name for kind, name in delta.configs if kind == TOPIC_RESOURCE}
        if topics or delta.partitions or delta.deleted_topics:
            partitions = [(topic_id, index) for topic_id, found in delta.partitions.items() for index in found]
            partitions += [(topic.id, index) for topic in delta.deleted_topics.values() for index in topic.partitions]
            for running in self._running.values():
                running.changed(partitions, topics)
            self.shown.changed()

    def stop(self) -> None:
        """End all mirrors."""
        for running in self._running.values():
            running.stop()
        self._running.clear()
        self.shown.stop()
