"""No API can be forgotten: each that is served has a need, or a reason why it has none."""

import pytest

from kpybroker.machines.authorization.resources import AclOperation
from kpybroker.requests import handlers
from kpybroker.requests.guards.needs import AT_A_CONTROLLER, AT_BROKER, AT_CONTROLLER, BY_HANDLER, Reason, guard_for
from kpywire import api


@pytest.mark.parametrize(
    ("table", "served"),
    [(AT_BROKER, handlers.served_versions()), (AT_A_CONTROLLER, handlers.controller_versions())],
    ids=["broker", "controller"],
)
def test_each_served_api_declares_what_it_needs(table: dict[int, object], served: dict[int, object]) -> None:
    assert [api.API_KEYS[key].name for key in served.keys() - table.keys()] == []
    for key, need in table.items():
        if isinstance(need, Reason):
            assert need in str(need)
        else:
            assert isinstance(need, AclOperation | str)
            assert callable(guard_for(need)), api.API_KEYS[key].name


def test_requests_that_the_controller_authorizes_are_forwarded() -> None:
    for key in handlers.served_versions():
        if AT_BROKER[key] is AT_CONTROLLER:
            assert not isinstance(AT_A_CONTROLLER[key], Reason), api.API_KEYS[key].name
            module = handlers.load(key)
            source = "forward" in dir(module) or "forward_rest" in dir(module)
            assert source, f"{module.__name__} does not forward"


def test_handlers_that_ask_themselves_do() -> None:
    for key, need in AT_BROKER.items():
        if need is BY_HANDLER:
            names = dir(handlers.load(key))
            assert {"may", "may_on_cluster", "denied_topics"} & set(names), api.API_KEYS[key].name
