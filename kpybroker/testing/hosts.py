"""The place where a test's broker runs: in the loop that starts it, or in a child process that is controlled by JSON.

The child is started as ``python -m kpybroker.testing.program``, so the user's ``__main__`` is never imported again; it
ends when its standard input ends, so a test run that died leaves none behind.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from kpybroker.node.local_cluster.child import python_path
from kpybroker.testing.embedded import BrokerSettings, EmbeddedNode
from kpybroker.testing.snapshot import Snapshot

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_LONGEST_LINE_BYTES = 1 << 20


class BrokerFailed(Exception):
    """The broker did not start, or is gone. The text gives the reason in one line."""


class Host(Protocol):
    """A place for a broker."""

    async def start(self, snapshot: Snapshot | None) -> int:
        """Start the broker. Return the port that it serves. Raises BrokerFailed."""

    async def stop(self) -> None: ...

    async def command(self, name: str, **arguments: Any) -> Any:
        """Call ``EmbeddedNode.do_<name>``."""

    async def snapshot(self) -> Snapshot: ...

    async def restore(self, snapshot: Snapshot) -> int: ...

    def forget_sockets(self) -> None:
        """Forget the sockets, in a forked child of this process."""


class InThisLoop:
    """The broker lives in the running loop."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._node = EmbeddedNode(settings)

    async def start(self, snapshot: Snapshot | None) -> int:
        if snapshot is not None:
            return await self.restore(snapshot)
        return int(await self.command("start"))

    async def stop(self) -> None:
        node, self._node = self._node, EmbeddedNode(self._settings)
        await node.stop()

    async def command(self, name: str, **arguments: Any) -> Any:
        if self._node.failure is not None:
            raise BrokerFailed(f"the broker gave up: {self._node.failure}")
        try:
            return await self._node.command(name, arguments)
        except Exception as error:
            raise BrokerFailed(f"the broker did not {name}: {error}") from error

    async def snapshot(self) -> Snapshot:
        return await self._node.snapshot()

    async def restore(self, snapshot: Snapshot) -> int:
        try:
            return await self._node.restore(snapshot)
        except Exception as error:
            raise BrokerFailed(f"the broker did not restore: {error}") from error

    def forget_sockets(self) -> None:
        self._node.forget_sockets()


class InChildProcess:
    """The broker has a process of its own; it can be killed."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()
        self._asked = 0

    @property
    def pid(self) -> int:
        """The process id of the child."""
        assert self._process is not None
        return self._process.pid

    async def start(self, snapshot: Snapshot | None) -> int:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "kpybroker.testing.program",
            json.dumps(self._settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": python_path()},
            limit=_LONGEST_LINE_BYTES,
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return int(await self.command("start") if snapshot is None else await self.restore(snapshot))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def command(self, name: str, **arguments: Any) -> Any:
        process = self._process
        if process is None:
            raise BrokerFailed("the broker is not running")
        assert process.stdin is not None
        assert process.stdout is not None
        async with self._one_at_a_time:
            self._asked += 1
            with suppress(ConnectionError):
                process.stdin.write(json.dumps([self._asked, name, arguments]).encode() + b"\n")
                await process.stdin.drain()
            answer = await self._answer(process.stdout, self._asked)
        if answer is None:
            raise BrokerFailed(f"the broker's process ended with exit code {await process.wait()}")
        if "error" in answer:
            raise BrokerFailed(answer["error"])
        return answer["result"]

    async def _answer(self, output: asyncio.StreamReader, number: int) -> Mapping[str, Any] | None:
        """The answer to this command. Answers to earlier commands that are no longer awaited are skipped."""
        while line := await output.readline():
            answer: Mapping[str, Any] = json.loads(line)
            if answer["number"] == number:
                return answer
        return None

    async def snapshot(self) -> Snapshot:
        with tempfile.TemporaryDirectory() as directory:
            await self.command("save", directory=directory)
            return Snapshot.load(directory)

    async def restore(self, snapshot: Snapshot) -> int:
        with tempfile.TemporaryDirectory() as directory:
            snapshot.save(directory)
            return int(await self.command("restore", directory=directory))

    def forget_sockets(self) -> None:
        """Do nothing: the child's sockets are not in this process."""
