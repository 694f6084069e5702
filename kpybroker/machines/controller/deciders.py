"""The functions that decide requests. The module of each is imported when the first such request comes.

A plain start needs few of them: a broker registers and sends heartbeats, and everything else is asked for by somebody.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import isfunction, isgeneratorfunction
from typing import Any, Final

from kpybroker.machines.apis import APIS
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision, Steps
from kpywire import api

Decider = Callable[[ControllerState, ControllerRequest, int], Decision | Steps]

_ROWS: Final = {f"{api.API_KEYS[key].name}Request": served for key, served in APIS.items()}
DECIDERS: Final = {name: served.decided_by for name, served in _ROWS.items() if served.decided_by is not None} | {
    "Copied": "migration.copied",
    "ReportingHeartbeatRequest": "silence_reports.heartbeat",
}
"""The module and function for each request, by the name of its class. ``Copied`` never comes over the network, and a
``ReportingHeartbeatRequest`` is a BrokerHeartbeat there."""
_WITH_TIMEOUT: Final = frozenset(name for name, served in _ROWS.items() if served.ends_with_timeout)


@cache
def decider_of(name: str) -> Decider:
    """The function that decides requests whose class has this name. Raises KeyError if there is none."""
    module, _, function = DECIDERS[name].partition(".")
    decider: Decider = getattr(import_module(f"kpybroker.machines.controller.{module}"), function)
    return decider


def decides_in_steps(message: Any) -> bool:
    """Whether a request may be large enough to be decided in steps (`Controller.deliberate`)."""
    return _is_in_steps(type(message).__name__)


@cache
def _is_in_steps(name: str) -> bool:
    """Whether the decider of requests whose class has this name may be a generator. A compiled one does not say it."""
    if name not in DECIDERS:
        return False
    decider = decider_of(name)
    return isgeneratorfunction(decider) or not isfunction(decider)


def has_no_time(message: Any) -> bool:
    """Whether the time of a request is up before it began."""
    return type(message).__name__ in _WITH_TIMEOUT and message.timeout_ms <= 0
