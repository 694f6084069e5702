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


def longest_fetch_wait_ms(fetch_timeout_ms: int, request_timeout_ms: int) -> int:
    """How long a leader without news may keep a fetch, which is Kafka's 500 ms where patience allows for that.

    With as little patience as that a follower would give its leader up whenever nothing is written, and with half of
    a timeout a fetch may be lost and asked for again. (Apache Kafka waits 500 ms always.)
    """
    return max(min(DEFAULT_TIMING.fetch_max_wait_ms, fetch_timeout_ms // 2, request_timeout_ms // 2), 1)
