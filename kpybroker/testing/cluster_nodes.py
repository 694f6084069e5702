"""The nodes of a cluster in a test: each a process of its own that can be killed and held, or all in one loop.

A cluster uses a node through `ClusterHost`. A node keeps its ports and its directory when it is started again.
"""

import asyncio
import signal
from collections import deque
from pathlib import Path
from threading import Event
from typing import Protocol

from kpybroker.config.properties import read_properties
from kpybroker.node.local_cluster.child import READY, Child, fate
from kpybroker.node.local_cluster.layout import PlannedNode
from kpybroker.testing.embedded import BrokerSettings, EmbeddedNode
from kpybroker.testing.hosts import STOP_TIMEOUT_S, BrokerFailed
from kpybroker.testing.loop_thread import LoopThread

_LINES_KEPT = 200
_LINES_SHOWN = 15
_LOOK_EVERY_S = 0.2


class ClusterHost(Protocol):
    """A node of a cluster."""

    @property
    def answers(self) -> bool:
        """Whether it was started, and has neither ended nor is held."""

    def start(self) -> None:
        """Begin to start, without waiting."""

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return when it serves clients. Raises BrokerFailed."""

    def stop(self) -> None:
        """Stop cleanly."""

    def kill(self) -> None:
        """End at once."""

    def pause(self) -> None:
        """Hold the node: connections stay, nothing is answered."""

    def resume(self) -> None:
        """Let it continue."""


class ProcessNode:
    """A node in a process of its own."""

    def __init__(self, node: PlannedNode) -> None:
        self.node = node
        self.lines: deque[str] = deque(maxlen=_LINES_KEPT)
        """The last lines of its output."""
        self._child = Child(node.properties, self._printed, self._ended)
        self._ready = Event()
        self._over: str | None = None
        self._paused = False

    @property
    def pid(self) -> int:
        """The id of its present or last process."""
        return self._child.pid

    @property
    def answers(self) -> bool:
        return self._child.is_running and not self._paused

    def start(self) -> None:
        self._ready.clear()
        self._over = None
        self._paused = False
        self._child.start()

    def wait_until_ready(self, timeout_s: float) -> None:
        waited_s = 0.0
        while not self._ready.wait(_LOOK_EVERY_S):
            waited_s += _LOOK_EVERY_S
            if self._over is not None or waited_s > timeout_s:
                why = self._over or f"did not come up within {timeout_s:.0f} s"
                reported = "".join(f"\n  | {line}" for line in list(self.lines)[-_LINES_SHOWN:])
                raise BrokerFailed(f"node {self.node.id} {why}{reported}")

    def stop(self) -> None:
        self._paused = False
        self._child.end(STOP_TIMEOUT_S)

    def kill(self) -> None:
        self._child.signal(signal.SIGKILL)
        self._child.wait()
        self._paused = False

    def pause(self) -> None:
        self._paused = True
        self._child.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._child.signal(signal.SIGCONT)
        self._paused = False

    def _printed(self, line: str) -> None:
        self.lines.append(line)
        if READY in line:
            self._ready.set()

    def _ended(self, code: int) -> None:
        self._over = fate(code)


class LoopNode:
    """A node in a loop that it shares with the others; it cannot be held."""

    def __init__(self, node: PlannedNode, thread: LoopThread) -> None:
        self.node = node
        self._thread = thread
        properties = read_properties(Path(node.properties))
        config = {key: entry.value for key, entry in properties.items()}
        self._embedded = EmbeddedNode(BrokerSettings(config, str(node.data)))
        self._runs = False

    @property
    def answers(self) -> bool:
        return self._runs and self._embedded.failure is None

    def start(self) -> None:
        self._starting = asyncio.run_coroutine_threadsafe(self._embedded.start(), self._thread.loop)

    def wait_until_ready(self, timeout_s: float) -> None:
        try:
            self._starting.result(timeout_s)
        except TimeoutError:
            raise BrokerFailed(f"node {self.node.id} did not come up within {timeout_s:.0f} s") from None
        except Exception as error:
            raise BrokerFailed(f"node {self.node.id} did not start: {error}") from error
        self._runs = True

    def stop(self) -> None:
        if self._runs:
            self._runs = False
            self._thread.call(self._embedded.stop())

    def kill(self) -> None:
        if self._runs:
            self._runs = False
            self._thread.call(self._embedded.kill())

    def pause(self) -> None:
        raise BrokerFailed("only a process can be held: Cluster(process=True)")

    def resume(self) -> None:
        """Do nothing: such a node is never held."""
