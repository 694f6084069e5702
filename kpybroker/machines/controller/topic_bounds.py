"""Bounds on the topics and the partitions that a principal may create. Apache Kafka has none. Pure.

Kafka's metadata do not say who has created a topic. So a topic that is created under a bound has the mark of its
creator in the last bytes of its id (`kpybroker.machines.metadata.creator`). Ids survive
restarts, other controllers and moves of data directories, and no program reads anything into them.

Not covered: topics of the time without a bound, or created by a controller of Apache Kafka. Such a topic counts alone.
"""

from typing import Final, NamedTuple

from kpybroker.runtime.calls.principal import Principal

MAX_TOPICS: Final = "kpybroker.max.topics.per.principal"
MAX_PARTITIONS: Final = "kpybroker.max.partitions.per.principal"


class TopicBounds(NamedTuple):
    """The bounds of every principal."""

    max_topics: int = 0
    """0 for no bound."""
    max_partitions: int = 0
    exempt: frozenset[Principal] = frozenset()
    """The super users."""
