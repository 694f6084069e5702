"""The configs of a topic that is a mirror of another cluster's topic. A topic without them is an ordinary one.

They are set when the topic is created, and deleted when the mirror ends: then nothing is left of it in the metadata,
and Apache Kafka can go on with the directory. ``docs/mirroring.md`` says why they are configs.
"""

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "kpybroker.mirror."
SOURCE: Final = "kpybroker.mirror.source"
"""The name of the mirror. A topic with it is read-only for clients, and its logs are neither cleaned nor shortened."""
TOPIC_ID: Final = "kpybroker.mirror.topic.id"
"""The id of the source's topic, which this one gets, too."""
LEADER_EPOCH: Final = "kpybroker.mirror.leader.epoch"
"""A leader epoch above all of the source's. No partition of the topic has a lower one."""
STATE: Final = "kpybroker.mirror.state"
EXPORTING: Final = "exporting"
"""An ordinary topic is to become a mirror. It is read-only and not fed: records that its source lacks are exported."""
JOINING: Final = "joining"
"""The topic is fed, and the exported records are cut off, but no others."""
MIRRORING: Final = "mirroring"
STOPPING: Final = "stopping"
"""Nothing of the source is appended any more, and open transactions are ended. The topic is still read-only."""
EXPORT: Final = "kpybroker.mirror.export"
"""The topic or the directory to which records are exported that the source lacks."""
EXPORTED: Final = "kpybroker.mirror.exported"
"""The records that were exported: see `kpybroker.machines.mirror.divergence`. Without it a topic is not fed again."""
ALL_OF_A_TOPIC: Final = (SOURCE, TOPIC_ID, LEADER_EPOCH, STATE, EXPORT, EXPORTED)
MIRRORS: Final = "kpybroker.mirrors"
"""The config for all brokers that names the mirrors, with the patterns of their topics."""

CARRIED: Final = "kpybroker.mirror.carried"
"""The config for all brokers that notes the ACLs and quotas that were carried over from sources."""


def mirror_names(configs: Mapping[str, str | None]) -> list[str]:
    """The names of the mirrors that a cluster with these configs for all brokers has."""
    entries = (configs.get(MIRRORS) or "").split(",")
    return [entry.partition(":")[0].strip() for entry in entries if entry.strip()]


def is_mirror(configs: Mapping[str, str]) -> bool:
    """Whether a topic with these configs is a mirror, and so read-only."""
    return SOURCE in configs


def is_fed(configs: Mapping[str, str]) -> bool:
    """Whether batches of the source are appended to such a topic."""
    return SOURCE in configs and configs.get(STATE) not in (STOPPING, EXPORTING)


def is_sealed(configs: Mapping[str, str]) -> bool:
    """Return whether such a topic takes nothing of this cluster, not even the markers of its transactions."""
    return SOURCE in configs and configs.get(STATE) != STOPPING


def may_follow(before: str | None, after: str | None) -> bool:
    """Return whether a topic's mirror may go from one state to another. ``before`` is None for an ordinary topic. So no
    topic is fed before its records that the source lacks are exported."""
    return before == after or after in NEXT_STATES[before]


NEXT_STATES: Final[Mapping[str | None, tuple[str, ...]]] = {
    None: (EXPORTING,),
    EXPORTING: (JOINING, STOPPING),
    JOINING: (EXPORTING, MIRRORING, STOPPING),
    MIRRORING: (STOPPING,),
    STOPPING: (),
}
