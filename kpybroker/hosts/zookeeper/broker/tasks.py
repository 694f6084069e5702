"""The tasks of a broker in ZooKeeper mode: each is kept until it is done, and a failure ends the broker."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Begin = Callable[[Coroutine[Any, Any, None]], object]
"""Begins a task."""


class Tasks:
    """The tasks that are under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Callable[[str], object]) -> None:
        """``failed`` is called with one line for a task that raised an exception."""
        self._loop = loop
        self._failed = failed
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task, and keep it until it is done."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failed(f"the work on ZooKeeper failed: {task.exception()!r}")

    async def end(self) -> None:
        """Cancel all tasks, and wait for their ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
