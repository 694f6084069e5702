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
MIRRORING: Final = "mirroring"
STOPPING: Final = "stopping"
"""Nothing of the source is appended any more, and open transactions are ended. The topic is still read-only."""
MIRRORS: Final = "kpybroker.mirrors"
"""The config for all brokers that names the mirrors, with the patterns of their topics."""


def mirror_names(configs: Mapping[str, str | None]) -> list[str]:
    """The names of the mirrors that a cluster with these configs for all brokers has."""
    entries = (configs.get(MIRRORS) or "").split(",")
    return [entry.partition(":")[0].strip() for entry in entries if entry.strip()]


def is_mirror(configs: Mapping[str, str]) -> bool:
    """Whether a topic with these configs is a mirror, and so read-only."""
    return SOURCE in configs


def is_fed(configs: Mapping[str, str]) -> bool:
    """Whether batches of the source are appended to such a topic."""
    return SOURCE in configs and configs.get(STATE) != STOPPING
