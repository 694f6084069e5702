"""The bound of Aiven's ``upload.rate.limit.bytes.per.second``: on all copies of a broker together, part by part."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

_STEP_S: Final = 0.2


class UploadRate:
    """Spaces the parts of copies in time. Each waits until those before it have had theirs."""

    def __init__(
        self,
        bytes_per_second: int,
        now_s: Callable[[], float] = time.monotonic,
        sleep_s: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now_s = now_s
        self._sleep_s = sleep_s
        self._lock = Lock()
        self._free_at_s = now_s()

    def wait_for(self, size: int, is_stopped: Callable[[], bool]) -> None:
        """Wait until this number of bytes may be written, or the copy is stopped."""
        with self._lock:
            begins_s = max(self._now_s(), self._free_at_s)
            self._free_at_s = begins_s + size / self._bytes_per_second
        while (left_s := begins_s - self._now_s()) > 0 and not is_stopped():
            self._sleep_s(min(left_s, _STEP_S))
