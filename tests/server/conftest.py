"""Fixtures of the connection tests: every test runs on each way of watching sockets that this system has, and on a
channel that is no plain socket."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from conftest_server import RunningServer, running_servers
from narrow_channel import narrow_channel

from kpybroker.fairness.turn import Turn
from kpybroker.server import listener
from kpybroker.server.channel import plain_channel
from kpybroker.server.poller import LoopPoller, Poller, poller_for
from kpybroker.server.system_sockets import Sockets


def _loop_poller(loop: asyncio.AbstractEventLoop, monotonic_ms: Callable[[], float], turn: Turn, _: Sockets) -> Poller:
    return LoopPoller(loop, monotonic_ms, turn)


@pytest.fixture(
    params=[(poller_for, plain_channel), (_loop_poller, plain_channel), (poller_for, narrow_channel)],
    ids=["best poller", "no epoll", "narrow channels"],
)
def start_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers that end with the test."""
    new_poller, open_channel = request.param
    monkeypatch.setattr(listener, "poller_for", new_poller)
    yield from running_servers(open_channel)
