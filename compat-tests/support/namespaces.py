"""A network of our own: a namespace for each node, joined by a bridge, whose links can be cut (Linux, as root).

Nobody reports lost packets: connections stay open and silent, as when a cable is pulled.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Self

MOST_NODES: Final = 9
MOST_NETWORKS: Final = 200


def why_no_namespaces() -> str | None:
    """The reason why this process cannot make network namespaces; None if it can."""
    if shutil.which("ip") is None:
        return "there is no ip command"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    name = f"kpy-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


class Network:
    """``with Network() as network``; the nodes have the ids 1 to 9."""

    def __init__(self) -> None:
        self._number = os.getpid() % MOST_NETWORKS + 1
        self._bridge = f"kpyb{self._number}"

    def __enter__(self) -> Self:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("addr", "add", f"10.77.{self._number}.254/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for node_id in range(1, MOST_NODES + 1):
                self._add(node_id)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def address(self, node_id: int) -> str:
        """The address at which a node listens."""
        return f"10.77.{self._number}.{node_id}"

    def launcher(self, node_id: int) -> tuple[str, ...]:
        """The words that start a command in the namespace of a node."""
        return ("ip", "netns", "exec", self._namespace(node_id))

    @contextmanager
    def cut(self, node_id: int) -> Iterator[None]:
        """Nothing reaches a node, and nothing comes from it."""
        _ip("link", "set", self._link(node_id), "down")
        try:
            yield
        finally:
            _ip("link", "set", self._link(node_id), "up")

    @contextmanager
    def deaf(self, node_id: int, other: int) -> Iterator[None]:
        """Lose the packets that a node sends to another one; those of the other one arrive."""
        route = ("-n", self._namespace(node_id), "route")
        _ip(*route, "add", "blackhole", self.address(other))
        try:
            yield
        finally:
            _ip(*route, "del", "blackhole", self.address(other))

    def _namespace(self, node_id: int) -> str:
        return f"kpy{self._number}n{node_id}"

    def _link(self, node_id: int) -> str:
        return f"kpyv{self._number}n{node_id}"

    def _add(self, node_id: int) -> None:
        namespace, link = self._namespace(node_id), self._link(node_id)
        _ip("netns", "add", namespace)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", link, "master", self._bridge, "up")
        _ip("-n", namespace, "addr", "add", f"{self.address(node_id)}/24", "dev", "eth0")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        _ip("-n", namespace, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for node_id in range(1, MOST_NODES + 1):
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self._namespace(node_id))
        with suppress(subprocess.CalledProcessError):
            _ip("link", "del", self._bridge)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
