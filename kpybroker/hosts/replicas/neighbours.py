"""The parts of a node that a change of its partitions concerns: what fetches them from other brokers, what moves them
between directories, and what reports their directories to the controller.

`Replicas` is given them when it is made. None of them holds `Replicas`: what they need of it is an argument.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.machines.metadata.image import MetadataImage
from kpystorage.log import Log


class HeldPartitions(Protocol):
    """The partitions of this node, as far as moves need them."""

    def topic(self, key: str | bytes) -> HeldTopic | None: ...

    def find(self, topic: str | bytes, index: int) -> Replica: ...

    def open_log(self, replica: Replica) -> Log: ...


class Assigning(Protocol):
    """Reports to the controller in which directory each replica is (`kpybroker.hosts.replicas.assignments`)."""

    def assign(
        self, topic_id: bytes, index: int, directory_id: bytes, then: Callable[[], object] | None = None
    ) -> None: ...


class Moving(Protocol):
    """The moves between directories (`kpybroker.hosts.replicas.moves`)."""

    def is_moving(self, topic: str, index: int) -> bool: ...

    def resume(self, image: MetadataImage, held: HeldPartitions) -> None: ...

    def forget(self, topic: str, index: int) -> None: ...


class FollowerFetching(Protocol):
    """Fetches the partitions that other brokers lead (`kpybroker.hosts.replicas.fetchers`)."""

    def follow(self, replica: Replica) -> None: ...

    def forget(self, replica: Replica) -> None: ...

    def configured(self, replica: Replica) -> None: ...

    def log_start_moved(self, replica: Replica) -> None: ...

    def brokers_changed(self) -> None: ...


class Neighbours(NamedTuple):
    """The neighbours of one node's `Replicas`."""

    assignments: Assigning
    moves: Moving
    fetchers: FollowerFetching
