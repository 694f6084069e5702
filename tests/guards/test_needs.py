"""The guards that the table of APIs names are there, and handlers do what their reasons say."""

import pytest

from kpybroker.machines.apis import APIS, AT_CONTROLLER, BY_HANDLER, Reason
from kpybroker.requests import handlers
from kpybroker.requests.guards.needs import guard_for
from kpywire import api


@pytest.mark.parametrize("key", APIS, ids=lambda key: api.API_KEYS[key].name)
def test_a_need_of_an_api_is_a_reason_or_has_a_guard(key: int) -> None:
    served = APIS[key]
    needs = [need for need in (served.at_broker, served.at_controller) if need is not None]
    assert needs, "it is served nowhere"
    for need in needs:
        guard = guard_for(need)
        assert guard is None if isinstance(need, Reason) else callable(guard)


def test_requests_that_the_controller_authorizes_are_forwarded() -> None:
    for key, served in APIS.items():
        if served.at_broker is AT_CONTROLLER:
            assert served.at_controller is not None, api.API_KEYS[key].name
            assert not isinstance(served.at_controller, Reason), api.API_KEYS[key].name
            module = handlers.load(key)
            source = "forward" in dir(module) or "forward_rest" in dir(module)
            assert source, f"{module.__name__} does not forward"


def test_handlers_that_ask_themselves_do() -> None:
    for key, served in APIS.items():
        if served.at_broker is BY_HANDLER:
            names = dir(handlers.load(key))
            assert {"may", "may_on_cluster", "denied_topics", "denied_among"} & set(names), api.API_KEYS[key].name
