"""The bound on the bytes of all copies together."""

from kpybroker.hosts.remote_log.upload_rate import UploadRate


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_parts_wait_until_those_before_had_their_time() -> None:
    clock = Clock()
    rate = UploadRate(1000, lambda: clock.now_s, clock.sleep)
    for _ in range(10):
        rate.wait_for(500, lambda: False)
    assert round(clock.now_s - 100, 6) == 4.5
    clock.now_s = 200
    rate.wait_for(500, lambda: False)
    assert clock.now_s == 200


def test_a_copy_that_is_stopped_does_not_wait_on() -> None:
    clock = Clock()
    rate = UploadRate(1, lambda: clock.now_s, clock.sleep)
    rate.wait_for(1000, lambda: False)
    rate.wait_for(1, lambda: clock.now_s > 105)
    assert clock.now_s < 106
