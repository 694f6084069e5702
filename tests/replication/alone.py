"""The neighbours of a node that knows no other brokers, and of one whose controller answers at once."""

from collections.abc import Callable

from kpybroker.hosts.replicas.neighbours import Assigning, HeldPartitions, Neighbours
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.metadata.image import MetadataImage


class Assigned:
    """A controller that notes directories at once, unless the test listens ``by`` itself."""

    def __init__(self) -> None:
        self.by: Assigning | None = None

    def assign(
        self, topic_id: bytes, index: int, directory_id: bytes, then: Callable[[], object] | None = None
    ) -> None:
        if self.by is not None:
            self.by.assign(topic_id, index, directory_id, then)
        elif then is not None:
            then()


class NoMoves:
    """Nothing moves."""

    def is_moving(self, *_partition: object) -> bool:
        return False

    def resume(self, image: MetadataImage, held: HeldPartitions) -> None: ...

    def forget(self, topic: str, index: int) -> None: ...


class NoFetchers:
    """Nothing is fetched."""

    def follow(self, replica: Replica) -> None: ...

    def forget(self, replica: Replica) -> None: ...

    def configured(self, replica: Replica) -> None: ...

    def log_start_moved(self, replica: Replica) -> None: ...

    def brokers_changed(self) -> None: ...


def alone() -> Neighbours:
    """The neighbours of a node without others."""
    return Neighbours(Assigned(), NoMoves(), NoFetchers())
