"""Fixtures of the connection tests: every test runs on each way of watching sockets that this system has, and on a
channel that is no plain socket."""

from collections.abc import Callable, Iterator

import pytest
from conftest_server import RunningServer, running_servers
from narrow_channel import narrow_channel

from kpybroker.requests.server.channel import plain_channel
from kpybroker.runtime.io.system_sockets import SystemSockets


@pytest.fixture(
    params=[(True, plain_channel), (False, plain_channel), (True, narrow_channel)],
    ids=["best poller", "no epoll", "narrow channels"],
)
def start_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers that end with the test."""
    has_epoll, open_channel = request.param
    if not has_epoll:
        monkeypatch.setattr(SystemSockets, "epoll", lambda _self: None)
    yield from running_servers(open_channel)
