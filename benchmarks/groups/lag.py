"""How late an event loop is."""

import asyncio
import time

INTERVAL_S = 0.001


class LoopLag:
    """Asks to be called every millisecond, and notes how much later it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.late_s: list[float] = []
        self._running = True
        self._due = time.perf_counter() + INTERVAL_S
        loop.call_later(INTERVAL_S, self._called)

    def _called(self) -> None:
        now = time.perf_counter()
        self.late_s.append(max(now - self._due, 0.0))
        if self._running:
            self._due = now + INTERVAL_S
            self.loop.call_later(INTERVAL_S, self._called)

    def stop(self) -> str:
        """What was seen, in words."""
        self._running = False
        late = sorted(self.late_s) or [0.0]
        median, p99 = late[len(late) // 2], late[len(late) * 99 // 100]
        return f"median {1000 * median:.1f} ms, p99 {1000 * p99:.1f} ms, max {1000 * late[-1]:.1f} ms"
