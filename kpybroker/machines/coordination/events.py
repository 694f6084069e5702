"""The inputs that every coordinator gets from the node, in addition to requests and the passing of time."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kpybroker.machines.metadata.topic import Topic


class Loaded(NamedTuple):
    """The log was replayed to its end."""

    timestamp_ms: int


class MetadataChanged(NamedTuple):
    """Topics were created, got more partitions, or were deleted (Kafka: ``onMetadataUpdate``).

    Leaders, in-sync replicas and configs are not told: no coordinator looks at them.
    """

    topics: Mapping[str, Topic]
    """All topics by name, as they are now. A machine may keep this: it is the image's own, and never to be changed."""
    grown: Collection[str]
    """The names of topics that are new or have new partitions, for kinds that follow them. The first event of a shard,
    before `Loaded`, names all topics. A topic may be deleted again by the time of the decision."""
    deleted: Mapping[str, Sequence[int]]
    """The partitions of deleted topics by name. A topic of the same name may exist again."""
    timestamp_ms: int
    deleted_ids: Collection[bytes] = ()
    """The ids of deleted topics."""
