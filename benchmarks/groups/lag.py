"""How late an event loop is, and how much of that it worked itself: on a busy machine others may have had the CPU."""

import asyncio
import time

INTERVAL_S = 0.001


class LoopLag:
    """Asks to be called every millisecond, and notes how much later it is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.late_s: list[float] = []
        self.worked_s = [0.0]
        self._running = True
        self._began_s = time.thread_time()
        self._ask()

    def _ask(self) -> None:
        self._due = time.perf_counter() + INTERVAL_S
        self._cpu = time.thread_time()
        self.loop.call_later(INTERVAL_S, self._called)

    def _called(self) -> None:
        self.late_s.append(max(time.perf_counter() - self._due, 0.0))
        self.worked_s.append(time.thread_time() - self._cpu)
        if self._running:
            self._ask()

    def stop(self) -> str:
        """The findings, in words."""
        self._running = False
        late = sorted(self.late_s) or [0.0]
        median, p99, most = (1000 * late[at] for at in (len(late) // 2, len(late) * 99 // 100, -1))
        worked, in_all = 1000 * max(self.worked_s), 1000 * (time.thread_time() - self._began_s)
        own = f"longest own work {worked:.1f} ms, in all {in_all:.0f} ms"
        return f"median {median:.1f} ms, p99 {p99:.1f} ms, max {most:.1f} ms; {own}"
