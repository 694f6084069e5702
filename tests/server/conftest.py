"""Fixtures of the connection tests: every test runs on each way of watching sockets that this system has."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from conftest_server import RunningServer, running_servers

from kpybroker.server import listener
from kpybroker.server.poller import LoopPoller, Poller, poller_for
from kpybroker.server.system_sockets import Sockets
from kpybroker.server.turn import Turn


def _loop_poller(loop: asyncio.AbstractEventLoop, monotonic_ms: Callable[[], float], turn: Turn, _: Sockets) -> Poller:
    return LoopPoller(loop, monotonic_ms, turn)


@pytest.fixture(params=[poller_for, _loop_poller], ids=["best poller", "no epoll"])
def start_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers that end with the test."""
    monkeypatch.setattr(listener, "poller_for", request.param)
    yield from running_servers()
