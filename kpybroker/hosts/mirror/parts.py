"""The parts of a broker that its mirrors use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kpybroker.client.bad_property import BadProperty
from kpybroker.client.sources import MirrorSource
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import MIRROR_DIRECTORY
from kpybroker.hosts.mirror.source import read_source
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.image import MetadataImage
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
        return self.lowest_id == self.node_id

    @property
    def lowest_id(self) -> int:
        """The live broker with the lowest id; -1 without one."""
        return min((each.id for each in self.image.brokers.values() if not each.fenced), default=-1)
