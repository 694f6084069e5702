"""A broker in ZooKeeper mode forwards nothing: its console names the controller, which makes the change."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.monitoring.console.asking import Asking
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.elect_leaders import ElectLeadersRequest

VIEWER = Viewer(ANONYMOUS, "127.0.0.1", None)
REQUESTS = (CreateTopicsRequest(topics=[], timeout_ms=1), ElectLeadersRequest(topic_partitions=None, timeout_ms=1))


def asking(controller: int) -> Asking:
    role: Any = SimpleNamespace(
        node_id=1,
        config=SimpleNamespace(is_in_zookeeper_mode=True),
        controller=SimpleNamespace(controller_id=controller),
        is_controller_role=False,
    )
    return Asking(role)


@pytest.mark.parametrize(
    ("controller", "line"),
    [
        (2, "this change: NOT_CONTROLLER: node 2 is the controller; make it on the console of node 2"),
        (-1, "this change: NOT_CONTROLLER: there is no controller now; try again"),
    ],
)
def test_a_change_that_only_the_controller_makes_names_it(controller: int, line: str) -> None:
    for request in REQUESTS:
        with pytest.raises(HttpRefused) as refused:
            asyncio.run(asking(controller)(VIEWER, request))
        assert (refused.value.status, str(refused.value)) == (421, line)


def test_the_controller_itself_is_asked() -> None:
    with pytest.raises(AttributeError):  # it has no more of a broker than its place
        asyncio.run(asking(1)(VIEWER, REQUESTS[0]))
