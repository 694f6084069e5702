"""Fixtures of the connection tests: every test runs on each way of watching sockets that this system has."""

from collections.abc import Callable, Iterator

import pytest
from conftest_server import RunningServer, running_servers

from kpybroker.server import listener
from kpybroker.server.poller import LoopPoller, poller_for


@pytest.fixture(params=[poller_for, LoopPoller], ids=["best poller", "no epoll"])
def start_server(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers that end with the test."""
    monkeypatch.setattr(listener, "poller_for", request.param)
    yield from running_servers()
