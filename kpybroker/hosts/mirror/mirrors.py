"""The mirrors of this broker: one `RunningMirror` for each that ``kpybroker.mirrors`` names, while it is named."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kpybroker.client.bad_property import BadProperty
from kpybroker.client.sources import MirrorSource
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import MIRROR_DIRECTORY
from kpybroker.hosts.mirror.running_mirror import RunningMirror
from kpybroker.hosts.mirror.source import read_source
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.metadata.mirror_configs import MIRRORS
from kpybroker.machines.mirror.mirror import mirrors_of
from kpybroker.runtime.io.scheduler import Scheduler


class MirrorParts(NamedTuple):
    """The parts of a broker that mirrors use."""

    node_id: int
    scheduler: Scheduler
    replicas: Replicas
    nodes: Nodes
    ask_controller: Callable[[Any, Callable[[Any], object]], object]
    config: Callable[[], BrokerConfig]
    image: MetadataImage

    def read_source(self, mirror: str) -> MirrorSource:
        """The source of a mirror, as the file of its name describes it. Raises BadProperty."""
        directory = self.config()[MIRROR_DIRECTORY]
        if not directory:
            raise BadProperty(f"{MIRROR_DIRECTORY} is not set on this broker")
        return read_source(Path(directory) / f"{mirror}.properties")

    @property
    def is_lowest(self) -> bool:
        """Whether no other live broker has a lower id: this one cares for topics and groups. Two brokers that think so
        for a moment do no harm, since everything that they ask for may be asked for twice."""
        return min((each.id for each in self.image.brokers.values() if not each.fenced), default=-1) == self.node_id


class Mirrors:
    """All mirrors of one broker."""

    def __init__(self, parts: MirrorParts) -> None:
        self._parts = parts
        self._running: dict[str, RunningMirror] = {}
        self.reconfigure()

    def __iter__(self) -> Iterator[RunningMirror]:
        return iter(self._running.values())

    def reconfigure(self) -> None:
        """Begin mirrors that are new in the configuration, and end those that it does not name any more."""
        named = mirrors_of(self._parts.config()[MIRRORS])
        for name, running in list(self._running.items()):
            if named.get(name) != running.mirror:
                self._running.pop(name).stop()
        for name, mirror in named.items():
            if name not in self._running:
                self._running[name] = RunningMirror(self._parts, mirror)
                self._running[name].start()

    def apply(self, delta: MetadataDelta) -> None:
        """Follow a change of the metadata, which the replicas have followed already."""
        topics = {name for kind, name in delta.configs if kind == TOPIC_RESOURCE}
        if topics or delta.partitions or delta.deleted_topics:
            for running in self._running.values():
                running.configured(topics)

    def stop(self) -> None:
        """End all mirrors."""
        for running in self._running.values():
            running.stop()
        self._running.clear()
