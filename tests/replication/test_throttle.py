"""The throttle of replication: bytes against a rate that may change at any time."""

from kpybroker.hosts.replicas.throttle import STANDSTILL_MS, ReplicaThrottle


class Limit:
    """A rate that the test changes, and a throttle of it."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.throttle = ReplicaThrottle(lambda: self.rate)


def test_bytes_wait_until_the_average_is_right_again() -> None:
    limit = Limit(1_000)
    assert limit.throttle.wait_ms(0) == 0
    limit.throttle.count(500, 0)
    assert limit.throttle.wait_ms(100) == 400
    assert limit.throttle.wait_ms(500) == 0
    limit.throttle.count(100, 10_000)
    assert limit.throttle.wait_ms(10_000) == 100, "unused time gives no credit"


def test_a_rate_that_is_raised_shortens_the_wait_and_a_lower_one_is_for_the_next_bytes() -> None:
    limit = Limit(1_000)
    limit.throttle.count(800, 0)
    limit.rate = 8_000
    assert limit.throttle.wait_ms(0) == 100
    limit.rate = 4_000
    assert limit.throttle.wait_ms(0) == 100
    limit.throttle.count(400, 0)
    assert limit.throttle.wait_ms(0) == 200


def test_the_rate_is_read_again_after_a_second_at_most() -> None:
    limit = Limit(1)
    limit.throttle.count(900_000, 0)
    assert limit.throttle.wait_ms(0) == STANDSTILL_MS
    limit.rate = 2**63 - 1
    assert limit.throttle.wait_ms(0) == 0
    limit.rate = 0
    assert limit.throttle.wait_ms(0) == STANDSTILL_MS
