"""``kpybroker start --brokers N``: a cluster of N processes on this machine, its output in one place, stopped together.

A node that dies is said in one line and the others go on, as in any cluster. On a stop the nodes that are only brokers
go first, all at once, then the controllers one after the other: each still finds somebody to hand its leaderships to.
A second signal does not wait any more.
"""

import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import NamedTuple

import click

from kpybroker.config.definition import ConfigError
from kpybroker.config.properties import read_properties
from kpybroker.controller.formatter import FormatRefused
from kpybroker.controller.recovery import StartRefused
from kpybroker.local_cluster.child import READY, Child, fate
from kpybroker.local_cluster.foundation import FoundationRefused, found
from kpybroker.local_cluster.layout import CONTROLLERS_OF_MANY, OWN_KEYS, PORTS_BETWEEN, Node
from kpystorage.errors import StorageError

DEFAULT_DIRECTORY = "./cluster"


class Line(NamedTuple):
    """Something a node said."""

    node: int
    text: str


class End(NamedTuple):
    """A node's process is gone."""

    node: int
    code: int


class Stop(NamedTuple):
    """Somebody wants the cluster to stop."""

    number: int


Event = Line | End | Stop


def lay_out(
    directory: Path, host: str, first_port: int, count: int, properties: Path | None, overrides: Mapping[str, str]
) -> list[Node]:
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
    except (FoundationRefused, FormatRefused, StartRefused, ConfigError, StorageError, OSError) as error:
        click.echo(f"kpybroker: {error}", err=True)
        sys.exit(1)


class RunningCluster:
    """The processes of a cluster, and what becomes of them."""

    def __init__(self, nodes: Sequence[Node], options: Sequence[str], ready: Callable[[], object]) -> None:
        """``ready`` is called when every node serves clients. ``options`` are more of ``kpybroker start``."""
        self._nodes = {node.id: node for node in nodes}
        self._ready = ready
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._children = {
            node.id: Child(node.properties, partial(self._said, node.id), partial(self._ended, node.id), options)
            for node in nodes
        }
        self._not_ready = set(self._nodes)
        self._running = set(self._nodes)
        self._stopping: list[list[int]] = []
        self._told: set[int] = set()
        self._is_stopping = False

    def run(self) -> int:
        """Start all and go on until none is left; the exit code, 0 only if nothing ended by itself."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)
        for child in self._children.values():
            child.start()
        code = 0
        while self._running:
            event = self._events.get()
            if isinstance(event, Line):
                self._line(event)
            elif isinstance(event, End):
                code |= self._end(event)
            else:
                self._stop()
        return code

    def _said(self, node: int, text: str) -> None:
        self._events.put(Line(node, text))

    def _ended(self, node: int, code: int) -> None:
        self._events.put(End(node, code))

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._events.put(Stop(number))

    def _line(self, line: Line) -> None:
        if READY not in line.text:
            click.echo(f"[{line.node}] {line.text}", err=True)
        elif line.node in self._not_ready:
            self._not_ready.discard(line.node)
            click.echo(f"kpybroker: node {line.node} is ready", err=True)
            if not self._not_ready:
                self._ready()

    def _end(self, end: End) -> int:
        self._running.discard(end.node)
        if self._is_stopping:
            self._stop_next()
            return int(end.code != 0)
        rest = "the others go on" if self._running else "none is left"
        click.echo(f"kpybroker: node {end.node} {fate(end.code)}; {rest}", err=True)
        return 1

    def _stop(self) -> None:
        if self._is_stopping:
            for child in self._children.values():
                child.signal(signal.SIGKILL)
            return
        self._is_stopping = True
        click.echo(f"kpybroker: stopping {len(self._running)} nodes", err=True)
        controllers = [node.id for node in self._nodes.values() if node.controller is not None]
        self._stopping = [[number for number in self._nodes if number not in controllers]]
        self._stopping += [[number] for number in controllers]
        self._stop_next()

    def _stop_next(self) -> None:
        """When those that were told to stop are gone, tell the next."""
        while self._stopping and not self._running.intersection(self._stopping[0]):
            self._stopping.pop(0)
        for number in self._running.intersection(self._stopping[0] if self._stopping else ()) - self._told:
            self._told.add(number)
            self._children[number].signal(signal.SIGCONT)
            self._children[number].signal(signal.SIGTERM)
