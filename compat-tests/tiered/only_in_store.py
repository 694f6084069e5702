"""kpybroker with all that users write in the store: ``python only_in_store.py start server.properties``.

Topics that are not compacted, and do not say themselves whether they are tiered, have a segment for each batch, and
nothing on the disk but the last one. Their configs are not changed, so no client notices. Only the logs differ.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kpybroker.__main__ import main
from kpybroker.config.topic import TopicConfig
from kpybroker.hosts.replicas.replicas import TIERED, Replicas
from kpybroker.machines.metadata.topic_name import NEVER_TIERED
from kpybroker.machines.remote_log.local_log import UNLIMITED, TierSettings
from kpybroker.node.assembly import replication

if TYPE_CHECKING:
    from kpystorage.log_config import LogConfig

A_BATCH_MS: Final = -1
"""The age at which a segment is full: the next batch begins another one, unless it is older."""
GONE_MS: Final = 100
"""The time after which deleted files are gone."""


class OnlyInStore(TopicConfig):
    """The configs of a topic of which the disk has as little as possible."""

    __slots__ = ()

    def __init__(self, plain: TopicConfig) -> None:
        """Take the configs of a topic that is not tiered."""
        super().__init__(plain.values, plain.overrides, producer_id_expiration_ms=plain.producer_id_expiration_ms)
        kept_ms = self.retention_ms if "retention.ms" in plain.overrides else UNLIMITED  # records may have any time
        self.tier = TierSettings(kept_ms, self.retention_bytes, local_retention_bytes=1)

    def log(self) -> "LogConfig":
        """The settings of the logs."""
        return super().log()._replace(segment_ms=A_BATCH_MS, segment_jitter_ms=0, file_delete_delay_ms=GONE_MS)


class TieredReplicas(Replicas):
    """The partitions of a node, where all topics that may be tiered are."""

    def _config_of(self, name: str, overrides: Mapping[str, str]) -> TopicConfig:
        plain = super()._config_of(name, overrides)
        is_plain = plain.compact or name in NEVER_TIERED or TIERED in overrides
        return plain if is_plain else OnlyInStore(plain)


if __name__ == "__main__":
    replication.__dict__["Replicas"] = TieredReplicas
    main()
