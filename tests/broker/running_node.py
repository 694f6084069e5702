"""A whole node in a thread of the test, on a free port, with a disk that the test can break."""

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors


class BreakableFile:
    """A file whose writes fail while its disk says so."""

    def __init__(self, file: Any, disk: "BreakableDisk") -> None:
        self._file = file
        self._disk = disk
        self.path = file.path

    def pwrite(self, data: Any, position: int) -> None:
        self._disk.check(self.path)
        self._file.pwrite(data, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class BreakableDisk(RealDisk):
    """The real disk until `break_under` is set: then writes to files below it fail with EIO."""

    def __init__(self) -> None:
        super().__init__(Descriptors(512))
        self.break_under: str | None = None

    def check(self, path: str) -> None:
        if self.break_under is not None and path.startswith(self.break_under):
            raise OSError(errno.EIO, "Input/output error", path)

    def file(self, path: str) -> Any:
        return BreakableFile(super().file(path), self)

    def create(self, path: str) -> Any:
        self.check(path)
        return BreakableFile(super().create(path), self)


class RunningNode:
    """Starts in the constructor; `stop` ends it cleanly."""

    def __init__(self, settings: dict[str, str], disk: RealDisk | None = None) -> None:
        self.failures: list[str] = []
        self.loop = asyncio.new_event_loop()
        base = {"listeners": "PLAINTEXT://127.0.0.1:0", "kpybroker.http.listener": "127.0.0.1:0"}
        config = BrokerConfig.load(None, {**base, **settings})
        self.node = Node(config, self.loop, self.failures.append)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        try:
            self.call_async(lambda: self.node.start(disk or RealDisk(Descriptors(512))))
        except BaseException:
            self.stop()
            raise

    @property
    def port(self) -> int:
        return self.node.ports["PLAINTEXT"]

    def call_async(self, function: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return await function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def call(self, function: Callable[[], Any]) -> Any:
        """Run on the node's loop and wait for the result."""

        async def run() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    def stop(self) -> None:
        self.call_async(self.node.stop)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()


def start(directory: Path, **settings: str) -> RunningNode:
    """A node with its data in ``directory``; settings are keywords with ``_`` for ``.``."""
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return RunningNode({"log.dirs": str(directory), **named})
