"""The timeouts that the nodes of a quorum apply to one another."""

from typing import NamedTuple


class Timing(NamedTuple):
    """Kafka's ``controller.quorum.*`` times."""

    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    election_backoff_max_ms: int = 1000
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
    gone_backoff_max_ms: int = 100
    """The longest delay before a voter stands for election after the leader's process has ended."""


DEFAULT_TIMING = Timing()


def longest_fetch_wait_ms(fetch_timeout_ms: int, request_timeout_ms: int) -> int:
    """The longest time for which a leader without news may keep a fetch: Kafka's 500 ms if the timeouts allow it.

    With a timeout as short as the wait, a follower would give its leader up whenever nothing is written. With a wait of
    half the timeout, a fetch may be lost and sent again in time. (Apache Kafka always waits 500 ms.)
    """
    return max(min(DEFAULT_TIMING.fetch_max_wait_ms, fetch_timeout_ms // 2, request_timeout_ms // 2), 1)
