"""How patient the nodes of a quorum are with one another."""

from typing import NamedTuple


class Timing(NamedTuple):
    """Kafka's ``controller.quorum.*``."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    election_backoff_max_ms: int = 1000
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    gone_backoff_max_ms: int = 100
    """How long, at most, a voter waits before it stands in the place of a leader whose process has ended."""


DEFAULT_TIMING = Timing()
