"""The quotas of copies and reads, in numbers that can be checked by hand and that Kafka's own tests have."""

import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.remote_log.pace import CopyPace, copy_quota, fetch_quota
from kpybroker.machines.quotas.rate import QuotaWindows
from kpybroker.machines.remote_log.quota import RemoteLogQuota

WINDOWS = QuotaWindows(11, 1_000)
MIB = 1 << 20


def test_the_throttle_time_is_that_of_kafka():
    quota = RemoteLogQuota(50, WINDOWS)
    assert quota.throttle_ms(0) == 0
    quota.use(500, 0)
    assert [quota.throttle_ms(now_ms) for now_ms in (1_000, 9_000, 10_000)] == [9_000, 1_000, 0]


def test_bytes_are_forgotten_when_their_windows_have_passed():
    quota = RemoteLogQuota(50, WINDOWS)
    quota.use(5_000, 0)
    assert quota.throttle_ms(10_999) > 0
    assert quota.throttle_ms(11_000) == 0


def test_a_changed_quota_counts_at_once():
    quota = RemoteLogQuota(50, WINDOWS)
    quota.use(500, 0)
    quota.set_limit(500)
    assert quota.throttle_ms(1_000) == 0


@given(
    st.integers(1, 1 << 30),
    st.lists(st.tuples(st.integers(1, 8 * MIB), st.integers(0, 5_000)), min_size=1, max_size=60),
)
def test_parts_that_wait_keep_to_the_quota_but_for_the_first_one(limit: int, parts: list[tuple[int, int]]):
    quota, now_ms, used = RemoteLogQuota(limit, WINDOWS), 0, list[tuple[int, int]]()
    for size_bytes, pause_ms in parts:
        now_ms += pause_ms
        while (throttle_ms := quota.throttle_ms(now_ms)) > 0:
            now_ms += throttle_ms
        quota.use(size_bytes, now_ms)
        used.append((now_ms, size_bytes))
        recent = [each for at_ms, each in used[:-1] if now_ms - at_ms < 10_000]
        allowed = limit * 12 + max(size for _, size in used) + limit / 100 + 1
        assert sum(recent) <= allowed


def test_throttle_times_are_averaged_over_the_last_minute():
    quota = RemoteLogQuota(50, WINDOWS)
    assert (quota.mean_throttle_ms(0), quota.max_throttle_ms(0)) == (0.0, 0)
    quota.waited(100, 0)
    quota.waited(300, 30_000)
    assert (quota.mean_throttle_ms(59_999), quota.max_throttle_ms(59_999)) == (200.0, 300)
    assert (quota.mean_throttle_ms(60_000), quota.max_throttle_ms(90_000)) == (300.0, 0)


def test_the_quotas_come_from_the_configs_that_kafka_has():
    config = BrokerConfig.load(
        None,
        {
            "remote.log.manager.copy.max.bytes.per.second": "50",
            "remote.log.manager.fetch.max.bytes.per.second": "1000",
            "remote.log.manager.fetch.quota.window.num": "2",
            "remote.log.manager.fetch.quota.window.size.seconds": "3",
        },
    )
    copies, fetches = copy_quota(config), fetch_quota(config)
    assert (copies.bytes_per_second, fetches.bytes_per_second) == (50, 1_000)
    for quota in (copies, fetches):
        quota.use(12_000, 0)
    assert (copies.throttle_ms(10_999) > 0, fetches.throttle_ms(5_999) > 0) == (True, True)
    assert (copies.throttle_ms(11_000), fetches.throttle_ms(6_000)) == (0, 0)


# Threads that copy


class Clock:
    """A clock that a test moves; it also moves on a little with each look, so that no copy waits for ever."""

    def __init__(self, step_ms: int) -> None:
        self.now_ms, self._step_ms = 0, step_ms

    def __call__(self) -> int:
        self.now_ms += self._step_ms
        return self.now_ms


def copying(pace: CopyPace, size_bytes: int, is_stopped: Callable[[], bool] = lambda: False) -> threading.Thread:
    thread = threading.Thread(target=lambda: pace.limits(is_stopped).wait_for(size_bytes))
    thread.start()
    return thread


def test_a_copy_waits_before_the_part_that_exceeds_the_quota():
    clock = Clock(step_ms=400)
    pace = CopyPace(RemoteLogQuota(MIB, WINDOWS), clock)
    pace.limits(lambda: False).wait_for(4 * MIB)
    assert clock.now_ms < 2_000
    pace.limits(lambda: False).wait_for(4 * MIB)
    assert clock.now_ms >= 4_000
    mean_ms, longest_ms = pace.throttle_times_ms()
    assert longest_ms >= mean_ms > 1_000


def test_a_higher_quota_wakes_copies_that_wait():
    pace = CopyPace(RemoteLogQuota(1, WINDOWS), lambda: 0)
    pace.limits(lambda: False).wait_for(MIB)
    thread = copying(pace, 1)
    pace.set_limit(1 << 40)
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_a_copy_that_is_stopped_waits_no_longer():
    pace, stopped = CopyPace(RemoteLogQuota(1, WINDOWS), lambda: 0), threading.Event()
    pace.limits(stopped.is_set).wait_for(MIB)
    thread = copying(pace, 1, stopped.is_set)
    stopped.set()
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.parametrize("kind", ["copy", "fetch"])
def test_without_a_config_there_is_no_limit(kind: str):
    config = BrokerConfig.load(None, {})
    quota = copy_quota(config) if kind == "copy" else fetch_quota(config)
    quota.use(1 << 50, 0)
    assert quota.throttle_ms(1) == 0
