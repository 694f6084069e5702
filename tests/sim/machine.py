"""One machine that runs a node: starts it, kills it, stops it, takes its power, and starts it from what its disk holds.

The node is the production's, from its configuration to its files. What the process of a node does around it
(`kpybroker.node.node.run`) is done here: whatever ends a node, its supervisor starts it again after a while.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.metadata.image import InvalidMetadata
from kpybroker.node.assembly.platform import Simulated
from kpybroker.node.node import Node
from kpybroker.runtime.io.scheduler import LoopScheduler, Pieces, Submit
from kpystorage.errors import StorageError
from kpystorage.sim_disk import SimDisk, SimulatedCrash
from kpywire.errors import Malformed
from tests.storage.overlapping import Threads, Worker

from .layout import Layout
from .loop import SimulatedLoop
from .network import Host, Network, SimulatedSockets
from .synced import is_synced

if TYPE_CHECKING:
    from .world import World

RESTART_MS = 100.0
REFUSALS = (StartRefused, StorageError, InvalidMetadata, Malformed, OSError)
_CONFIGS: dict[tuple[tuple[str, str], ...], BrokerConfig] = {}


class SimulatedScheduler(LoopScheduler):
    """A node's scheduler: its host's clocks, and threads whose work is done at some moment between call and answer."""

    def __init__(self, loop: SimulatedLoop, machine: "Machine") -> None:
        self.loop = loop
        self.monotonic_ms = loop.host.monotonic_ms
        self.call_soon = loop.call_soon
        self.call_soon_threadsafe = loop.call_soon
        self._pieces = Pieces(loop.call_soon)
        self.in_pieces, self.share_turns = self._pieces.begin, self._pieces.share_turns
        self._machine = machine
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None
        self.threads = Threads(machine.disk, self._waits) if machine.is_slow or machine.tiers else None
        self._wait_ms = 0.0

    def now_ms(self) -> int:
        return self._machine.host.now_ms()

    def submit_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        self._under_way += 1
        self._machine.world.later(self._machine.thread_delay_ms(), self._work, work, done)

    def submit_urgent(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        self.submit_blocking(work, done)

    submit_waiting = submit_flush = submit_upkeep = submit_urgent

    def pool(self, name: str, threads: int) -> Submit:  # noqa: ARG002
        return self.submit_to_store if self._machine.tiers else self.submit_blocking

    def submit_to_store(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        """Work that waits for the store."""
        self._under_way += 1
        self._machine.world.later(self._machine.thread_delay_ms(), self._work, work, done, True)

    def wait_for_store(self, duration_ms: float) -> None:
        """Called in a thread that waits for the store."""
        assert self.threads is not None
        assert self.threads.running is not None
        self._wait_ms = duration_ms
        self.threads.running.wait()

    def _work(
        self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object], waits: bool = False
    ) -> None:
        if not self.loop.is_alive:  # type: ignore[attr-defined]
            return
        self._machine.world.acts(self._machine.host)
        if self.threads is not None and (waits or self._machine.is_slow):
            self.threads.begin(work, lambda worker: self._is_over(done, worker.result, worker.error))
            return
        result, failed = None, None
        try:
            result = work()
        except (SimulatedCrash, Exception) as error:
            failed = error
        self._is_over(done, result, failed)

    def _waits(self, worker: Worker) -> None:
        """A thread is about to wait for the disk."""
        wait_ms = self._wait_ms if self._machine.tiers else self._machine.sync_ms()
        self._machine.world.later(wait_ms, self._go_on, worker)

    def _go_on(self, worker: Worker) -> None:
        if self.loop.is_alive and self.threads is not None:  # type: ignore[attr-defined]
            self._machine.world.acts(self._machine.host)
            self.threads.go_on(worker)

    def _is_over(
        self, done: Callable[[Any, BaseException | None], object], result: Any, error: BaseException | None
    ) -> None:
        if isinstance(error, SimulatedCrash):
            self._machine.died()
        else:
            self._machine.world.later(self._machine.thread_delay_ms(), self._worked, done, result, error)

    def _worked(self, done: Callable[[Any, BaseException | None], object], result: Any, error: Any) -> None:
        self.loop.call_soon(self._tell, done, result, error)

    def _tell(self, done: Callable[[Any, BaseException | None], object], result: Any, error: Any) -> None:
        self._under_way -= 1
        try:
            done(result, error)
            if self._machine.is_slow:
                self._machine.look_at_recovery_points()
        finally:
            if not self._under_way and self._idle is not None and not self._idle.done():
                self._idle.set_result(None)

    async def close(self) -> None:
        while self._under_way:
            self._idle = self.loop.create_future()
            await self._idle
        self._pieces.stop()


class Machine:
    """A node's machine, with its disk and its clocks; with or without a node that runs."""

    def __init__(self, world: "World", network: Network, node_id: int, layout: Layout) -> None:
        self.world = world
        self.network = network
        self.node_id = node_id
        self.host = network.hosts[f"n{node_id}"] = Host(world, f"n{node_id}", self._defect)
        self.settings = layout.settings[node_id]
        self.flushes_every_message = layout.flushes_every_message
        self._layout = layout
        self.rng = world.stream(f"machine {node_id}")
        self.disk = SimDisk(self.rng)
        layout.format(node_id, self.disk)
        self.node: Any = None
        """Its node while there is a process."""
        self.loop: SimulatedLoop | None = None
        self.tiers = layout.kind.tiers
        self.is_slow = layout.kind.is_slow
        """Whether each sync of a thread takes long, so that anything may happen meanwhile."""
        self._syncs = world.stream(f"syncs {node_id}")
        self._confirmed: dict[Any, int] = {}
        """The recovery points that were compared with the disk."""
        self.is_up = False
        """Whether its node has said that it is ready."""
        self.is_stopping = False
        self.is_suspect = False
        """Whether it lost something that it had, and has not been taken into the cluster again since."""
        self.is_empty = False
        """Whether it lost everything, and has not been taken into the cluster again since."""
        self.damaged: set[str] = set()
        """Partitions of which it has files that are not as they were written."""
        self.lives = 0
        self.slowest_thread_ms = 2.0
        self.before_death: Callable[[Machine], None] = lambda _machine: None
        self.before_stop: Callable[[Machine], None] = lambda _machine: None
        self.when_dead: Callable[[Machine], None] = lambda _machine: None
        self.restarts = True
        self._starting: asyncio.Task[None] | None = None
        self.may_keep_moved = False
        """Whether logs of partitions that moved away while it was gone may stay."""

    def __str__(self) -> str:
        return self.host.name

    @property
    def is_controller(self) -> bool:
        """Whether its controller is active, as far as it knows."""
        return self.node is not None and self.node.quorum is not None and self.node.quorum.is_active

    @property
    def image(self) -> Any:
        """The metadata that its node knows; None if it knows none."""
        host = None if self.node is None else self.node.quorum
        return None if host is None else host.image

    @property
    def is_only_broker(self) -> bool:
        """Whether it has no vote in the quorum, so that its disk holds nothing that cannot be had from others."""
        return self.settings.get("process.roles") == "broker"

    @property
    def is_alive(self) -> bool:
        """Whether there is a process."""
        return self.loop is not None

    def thread_delay_ms(self) -> float:
        """How long a thread's work takes to begin, and its answer to arrive."""
        rng = self.rng
        return rng.random() * (self.slowest_thread_ms if rng.random() < 0.1 else 0.3)

    def sync_ms(self) -> float:
        """How long a sync takes."""
        return self._syncs.choice((0.0, 1.0, 20.0, 200.0))

    def look_at_recovery_points(self) -> None:
        """Compare new recovery points with the disk: whatever came between the syncs of a flush, they must hold."""
        broker = None if self.node is None else self.node.broker
        for directory in () if broker is None else broker.replicas.directories:
            for log in directory.logs.values():
                if log.is_open and log.recovery_point > max(self._confirmed.get(log, 0), log.log_start_offset):
                    self._confirmed[log] = log.recovery_point
                    if not is_synced(self.disk, log, log.recovery_point):
                        self.world.violated(f"{self} has not flushed {log.path} to its recovery point")

    # Life

    def start(self) -> None:
        """Begin a process that runs the node."""
        if self.loop is not None or not self.host.is_powered:
            return
        self.lives += 1
        loop = self.loop = SimulatedLoop(self.world, self.network, self.host, self.died)
        self.is_up = self.is_stopping = False
        self.world.tell(f"{self} starts, life {self.lives}")
        node = self.node = self._new_node(loop)
        starting = self._starting = loop.create_task(node.start(self.disk))
        starting.add_done_callback(lambda task: self._started(loop, task))

    def _new_node(self, loop: SimulatedLoop) -> Any:
        return Node(
            _config(self.settings),
            loop,
            lambda line: loop.call_soon(self._gave_up, loop, line),
            scheduler=SimulatedScheduler(loop, self),
            simulated=Simulated(
                sockets=SimulatedSockets(self.network, self.host), rng=self.world.stream(f"node {self.node_id}")
            ),
        )

    def _started(self, loop: SimulatedLoop, task: "asyncio.Task[None]") -> None:
        if self.loop is not loop or task.cancelled():
            return
        error = task.exception()
        if error is None:
            self.is_up, self.is_suspect, self.is_empty = True, False, False
            self.world.tell(f"{self} is up")
        elif isinstance(error, SimulatedCrash):
            self.died()
        elif isinstance(error, REFUSALS):
            self._gave_up(loop, f"does not start: {error}")
        else:
            self._defect(f"{self} does not start: {error!r}", error)

    def _gave_up(self, loop: SimulatedLoop, line: str) -> None:
        if self.loop is loop:
            self.world.tell(f"{self} gives up: {line}")
            self.stop()

    def stop(self) -> None:
        """A clean stop, as after SIGTERM."""
        loop, node = self.loop, self.node
        if loop is None or node is None or self.is_stopping:
            return
        self.before_stop(self)
        self.is_stopping = True
        self.world.tell(f"{self} stops")
        starting = self._starting
        stopping = node.stop() if starting is None or starting.done() else _stopped_while_starting(starting, node)
        loop.create_task(stopping).add_done_callback(lambda task: self._stopped(loop, task))

    def _stopped(self, loop: SimulatedLoop, task: "asyncio.Task[None]") -> None:
        if self.loop is not loop or task.cancelled():
            return
        error = task.exception()
        if error is not None and not isinstance(error, (SimulatedCrash, *REFUSALS)):
            self._defect(f"{self} does not stop: {error!r}", error)
        self._end_process("has stopped")

    def kill(self) -> None:
        """The process dies between two of its steps."""
        if self.loop is not None:
            self.before_death(self)
            self._end_process("is killed")

    def died(self) -> None:
        """The process died in the middle of a call to the disk."""
        if self.loop is not None:
            self._end_process("died at a write")

    def kill_at_a_write(self, calls: int) -> None:
        """Let it die at this change of the disk, counted from now on."""
        self.disk.crash_at = self.disk.calls + calls

    def _end_process(self, how: str) -> None:
        assert self.loop is not None
        self.world.tell(f"{self} {how}")
        self.loop.end()
        self.network.process_died(self.host)
        self._let_go(self.disk.after_process_death())

    def lose_power(self) -> None:
        """The machine is off: what was not synced may be lost, and nobody hears of it."""
        self.world.tell(f"{self} loses its power")
        self.is_suspect = True
        if self.loop is not None:
            self.before_death(self)
            self.loop.end()
        self.network.power_failed(self.host)
        self._let_go(self.disk.after_power_failure())

    def lose_file_system(self) -> None:
        """Its file system goes down and is mounted again while the machine runs on: what was not synced may be lost."""
        self.world.tell(f"the file system of {self} goes down and comes back")
        self.is_suspect = True
        if self.loop is not None:
            self.before_death(self)
            self.loop.end()
        self.network.process_died(self.host)
        self._let_go(self.disk.after_remount())

    def fail_a_flush(self, may_lose: Callable[[], bool]) -> None:
        """Its next fsync fails if that may be then, and what was written since the last one may be lost."""
        disk = self.disk

        def loses_pages() -> bool:
            if self.disk is not disk or self.loop is None or not may_lose():
                return False
            self.world.tell(f"an fsync of {self} fails, and drops what it was to write")
            self.is_suspect = True
            disk.loses_pages = lambda: False
            return True

        disk.loses_pages = loses_pages

    def _let_go(self, disk: SimDisk) -> None:
        threads = getattr(getattr(self.node, "scheduler", None), "threads", None)
        if threads is not None:
            threads.die()
        self.disk.crash_at = self.disk.calls + 1  # whatever is left of the process changes nothing any more
        self.disk = disk
        self.loop = self.node = None
        self.is_up = False
        self.when_dead(self)

    def power_back(self) -> None:
        """The machine starts, and its node with it."""
        if not self.host.is_powered:
            self.network.power_back(self.host)
        self.start()

    def wipe(self) -> None:
        """Somebody replaced the disk by an empty one."""
        assert self.loop is None
        self.world.tell(f"{self} has an empty disk")
        self.is_suspect = self.is_empty = True
        self.damaged.clear()
        self.disk = SimDisk(self.rng)
        self._layout.format(self.node_id, self.disk)

    def _defect(self, what: str, error: Any) -> None:
        """Something that production would have lost in a log."""
        from traceback import format_exception

        for line in "".join(format_exception(error)).splitlines() if error is not None else ():
            self.world.tell(line)
        self.world.violated(what)


async def _stopped_while_starting(starting: "asyncio.Task[None]", node: Any) -> None:
    """The stop of a node that is not up yet, as `kpybroker.node.node.run` does it."""
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await node.stop()


def _config(settings: Mapping[str, str]) -> BrokerConfig:
    key = tuple(sorted(settings.items()))
    found = _CONFIGS.get(key)
    if found is None:
        is_whole = "zookeeper.connect" in settings  # nothing is added to these
        found = BrokerConfig(dict(settings)) if is_whole else BrokerConfig.load(None, dict(settings))
        _CONFIGS[key] = found
    return found
