"""The broker configs of groups (Kafka: ``GroupCoordinatorConfig``)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Overrides = Mapping[str, Any]
"""Settings that a group has of its own, by the names of `GroupSettings`."""


def _no_overrides(_group_id: str) -> Overrides:
    return {}


def assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """The names of server assignors. They may be configured by name or by Kafka's class."""
    return tuple(
        name.rpartition(".")[2].removesuffix("Assignor").lower() if "." in name else name for name in configured
    )


class GroupSettings(NamedTuple):
    """The configs of groups. They are read for every decision, so a dynamic change applies at once."""

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    consumer_max_size: int = 2_147_483_647
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_unsettled_heartbeat_interval_ms: int = 0
    """The interval while a group is not settled; 0: the same. Kafka has no such config."""
    consumer_assignment_interval_ms: int = 1_000
    consumer_regex_refresh_interval_ms: int = 600_000
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    share_max_size: int = 200
    share_session_timeout_ms: int = 45_000
    share_heartbeat_interval_ms: int = 5_000
    share_assignment_interval_ms: int = 1_000
    share_initialize_retry_interval_ms: int = 30_000
    share_unsettled_heartbeat_interval_ms: int = 0
    """The interval of a member that waits for partitions; 0: the same. Kafka has no such config."""
    share_assignor: str = "simple"
    streams_max_size: int = 2_147_483_647
    streams_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_num_standby_replicas: int = 0
    streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    streams_task_offset_interval_ms: int = 60_000
    streams_acceptable_recovery_lag: int = 10_000
    streams_assignor_name: str = "sticky"
    streams_description_max_bytes: int = 262_144
    """The largest description of a topology that is kept; 0: none is, as on a Kafka without a plug-in."""
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_assignment_interval_ms: int = 1_000
    overrides_of: Callable[[str], Overrides] = _no_overrides

    def of_group(self, group_id: str) -> "GroupSettings":
        """The settings of one group."""
        overrides = self.overrides_of(group_id)
        return self._replace(**overrides) if overrides else self
