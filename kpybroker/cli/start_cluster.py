"""``kpybroker start --brokers N``: a cluster of N processes on this machine, its output in one place, stopped together.

The death of a node is reported in one line and the others continue, as in any cluster. On a stop the nodes that are
only brokers are stopped first, all at once, then the controllers one after the other: each still finds a node to hand
its leaderships to. A second signal ends the wait, unless it only means that the terminal was closed.
"""

import logging
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import NamedTuple

import click

from kpybroker.config.properties import read_properties
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.metadata.chosen_levels import FormatRefused
from kpybroker.node.local_cluster.child import CONSOLE, READY, Child, fate
from kpybroker.node.local_cluster.foundation import FoundationRefused, found
from kpybroker.node.local_cluster.layout import CONTROLLERS_OF_MANY, OWN_KEYS, PORTS_BETWEEN, PlannedNode
from kpybroker.runtime.io.signals import HANGUP, let_go_of_output, say, stopping_signals
from kpystorage.errors import StorageError

log = logging.getLogger("kpybroker")

DEFAULT_DIRECTORY = "./cluster"


def again_by(program: str, properties: Path) -> str:
    """The command that starts one node again."""
    return f"{program} start {shlex.quote(str(properties.absolute()))}"


class OutputLine(NamedTuple):
    """A line of a node's output."""

    node: int
    text: str


class End(NamedTuple):
    """The end of a node's process."""

    node: int
    code: int


class StopRequest(NamedTuple):
    """A request to stop the cluster."""

    number: int


Event = OutputLine | End | StopRequest


def lay_out(
    directory: Path, host: str, first_port: int, count: int, properties: Path | None, overrides: Mapping[str, str]
) -> list[PlannedNode]:
    """The nodes, configured and formatted: by a file, its overrides, and their places. Exits with one line if that
    cannot be."""
    taken = sorted(OWN_KEYS & overrides.keys())
    if taken:
        raise click.UsageError(f"--brokers decides about {', '.join(taken)} itself.")
    highest = first_port + PORTS_BETWEEN + CONTROLLERS_OF_MANY
    if count < 1 or count > PORTS_BETWEEN or highest > 65535:
        raise click.UsageError(f"--brokers {count} at port {first_port}: there are not enough ports.")
    ports = range(first_port, first_port + count)
    controller_ports = range(first_port + PORTS_BETWEEN, highest)
    try:
        given = {} if properties is None else {key: each.value for key, each in read_properties(properties).items()}
        return found(directory, host, ports, controller_ports, {**given, **overrides}, socket.gethostname())
    except (FoundationRefused, FormatRefused, StartRefused, ConfigError, StorageError) as error:
        click.echo(f"kpybroker: {error}", err=True)
        sys.exit(1)


class RunningCluster:
    """The processes of a cluster, and their ends."""

    def __init__(
        self,
        nodes: Sequence[PlannedNode],
        options: Sequence[str],
        ready: Callable[[Mapping[int, str]], object],
        program: str,
        *,
        in_json: bool = False,
    ) -> None:
        """Prepare the processes. ``ready`` is called with the consoles when every node serves clients. ``options`` are
        further options of ``kpybroker start``. ``program`` is the command for this program in another terminal.
        ``in_json``: nodes write JSON, which is passed on unchanged, and this one does too."""
        self._program = program
        self._say: Callable[[str], object] = log.info if in_json else say
        self._nodes = {node.id: node for node in nodes}
        self._ready = ready
        self._consoles: dict[int, str] = {}
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._children = {
            node.id: Child(node.properties, partial(self._print_line, node.id), partial(self._ended, node.id), options)
            for node in nodes
        }
        self._not_ready = set(self._nodes)
        self._running = set(self._nodes)
        self._stopping: list[list[int]] = []
        self._notified: set[int] = set()
        self._is_stopping = False
        self._signals = 0
        """The number of requests to stop."""

    def run(self) -> int:
        """Start all nodes and run until none is left. Return the exit code, 0 only if none ended by itself."""
        for number in stopping_signals():
            signal.signal(number, self._signalled)
        for child in self._children.values():
            child.start()
        code = 0
        while self._running:
            event = self._events.get()
            if isinstance(event, OutputLine):
                self._line(event)
            elif isinstance(event, End):
                code |= self._end(event)
            else:
                self._stop(event.number)
        let_go_of_output()
        return code

    def _print_line(self, node: int, text: str) -> None:
        self._events.put(OutputLine(node, text))

    def _ended(self, node: int, code: int) -> None:
        self._events.put(End(node, code))

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._events.put(StopRequest(number))

    def _line(self, line: OutputLine) -> None:
        if line.text.startswith(CONSOLE):
            self._consoles[line.node] = line.text.removeprefix(CONSOLE)
        elif READY not in line.text:
            say(line.text if line.text.startswith("{") else f"[{line.node}] {line.text}")
        elif line.node in self._not_ready:
            self._not_ready.discard(line.node)
            self._say(f"kpybroker: node {line.node} is ready")
            if not self._not_ready:
                with suppress(OSError):  # nobody may be left to read it
                    self._ready(self._consoles)

    def _end(self, end: End) -> int:
        self._running.discard(end.node)
        if self._is_stopping:
            self._stop_next()
            return int(end.code != 0)
        if self._running:
            again = again_by(self._program, self._nodes[end.node].properties)
            rest = f"the others go on. To start it again, in another terminal: {again}"
        else:
            rest = "none is left"
        self._say(f"kpybroker: node {end.node} {fate(end.code)}; {rest}")
        return 1

    def _stop(self, number: int) -> None:
        if number != HANGUP:
            self._signals += 1
        if self._signals > 1:
            for child in self._children.values():
                child.signal(signal.SIGKILL)
        if self._is_stopping:
            return
        self._is_stopping = True
        self._say(f"kpybroker: stopping {len(self._running)} nodes")
        controllers = [node.id for node in self._nodes.values() if node.controller is not None]
        self._stopping = [[number for number in self._nodes if number not in controllers]]
        self._stopping += [[number] for number in controllers]
        self._stop_next()

    def _stop_next(self) -> None:
        """Stop the next nodes when those that were stopped before are gone."""
        while self._stopping and not self._running.intersection(self._stopping[0]):
            self._stopping.pop(0)
        for number in self._running.intersection(self._stopping[0] if self._stopping else ()) - self._notified:
            self._notified.add(number)
            self._children[number].signal(signal.SIGCONT)
            self._children[number].signal(signal.SIGTERM)
