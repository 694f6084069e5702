"""The broker configs of groups (Kafka: ``GroupCoordinatorConfig``)."""

from typing import NamedTuple


class GroupSettings(NamedTuple):
    """The configs of groups. They are read for every decision, so a dynamic change applies at once."""

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
