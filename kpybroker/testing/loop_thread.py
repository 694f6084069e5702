"""An event loop in a thread of its own, for blocking tests.

The thread is a daemon, so a test run that forgets a broker still ends. The loop is asyncio's, made here and used by
nothing else.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in a thread. It runs from its creation until `close`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, wait for it, and return or raise its result."""
        __tracebackhide__ = True
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a broker's own thread cannot wait for the broker")
        asked = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            error = asked.exception()
        except BaseException:
            asked.cancel()
            raise
        if error is not None:
            raise error
        return asked.result()

    def close(self) -> None:
        """End the thread. Unfinished work in the loop is given up."""
        if self._thread.is_alive():
            self.call(self._cancel_all())
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks(self.loop) if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.loop.shutdown_asyncgens()
