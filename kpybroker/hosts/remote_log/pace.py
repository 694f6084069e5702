"""The pace of copies: threads wait here before each part that they write (KIP-956)."""

import threading
from collections.abc import Callable
from typing import Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.remote_log.remote_storage import CopyLimits
from kpybroker.machines.quotas.rate import QuotaWindows
from kpybroker.machines.remote_log.quota import RemoteLogQuota

LOOK_MS: Final = 200
"""The time after which a waiting copy looks again whether it was stopped."""


def copy_quota(config: BrokerConfig) -> RemoteLogQuota:
    """The quota of copies that a broker is configured with."""
    return _quota(config, "copy")


def fetch_quota(config: BrokerConfig) -> RemoteLogQuota:
    """The quota of reads that a broker is configured with."""
    return _quota(config, "fetch")


def _quota(config: BrokerConfig, kind: str) -> RemoteLogQuota:
    prefix = f"remote.log.manager.{kind}."
    size_ms = 1_000 * int(config[prefix + "quota.window.size.seconds"])
    return RemoteLogQuota(
        config[prefix + "max.bytes.per.second"], QuotaWindows(config[prefix + "quota.window.num"], size_ms)
    )


class CopyPace:
    """The quota of copies, shared by the threads that copy."""

    def __init__(self, quota: RemoteLogQuota, now_ms: Callable[[], int]) -> None:
        """``now_ms`` is a clock that every thread may read."""
        self._quota = quota
        self._now_ms = now_ms
        self._changed = threading.Condition()

    def set_limit(self, bytes_per_second: int) -> None:
        """Change the quota; copies that wait are judged by it at once."""
        with self._changed:
            self._quota.set_limit(bytes_per_second)
            self._changed.notify_all()

    def limits(self, is_stopped: Callable[[], bool]) -> CopyLimits:
        """The limits of one copy."""
        return CopyLimits(is_stopped, lambda size_bytes: self._wait_for(size_bytes, is_stopped))

    def throttle_times_ms(self) -> tuple[float, int]:
        """The average and the longest of the recent throttle times."""
        with self._changed:
            now_ms = self._now_ms()
            return self._quota.mean_throttle_ms(now_ms), self._quota.max_throttle_ms(now_ms)

    def _wait_for(self, size_bytes: int, is_stopped: Callable[[], bool]) -> None:
        """Wait until this number of bytes may be written. Blocks. A copy that was stopped waits no longer."""
        with self._changed:
            began_ms = self._now_ms()
            is_throttled = False
            while not is_stopped():
                throttle_ms = self._quota.throttle_ms(self._now_ms())
                if not throttle_ms:
                    self._quota.use(size_bytes, self._now_ms())
                    break
                is_throttled = True
                self._changed.wait(min(throttle_ms, LOOK_MS) / 1_000)
            if is_throttled:
                self._quota.waited(self._now_ms() - began_ms, self._now_ms())
