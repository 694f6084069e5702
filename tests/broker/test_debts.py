"""A request that took long is charged to its own connection, not to one that was kept from the processor meanwhile."""

from time import thread_time_ns
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.machines.apis import TRAITS
from kpybroker.requests.dispatching.dispatcher import WAITED_NS, Dispatcher
from kpybroker.runtime.fairness.times import PIECE_NS

PRODUCE = 0


@pytest.mark.parametrize(
    ("took_ns", "computed_ns", "owes"),
    [
        (2 * PIECE_NS, 0, False),
        (2 * PIECE_NS, 2 * PIECE_NS, True),
        (WAITED_NS + 1, 0, True),
    ],
    ids=["the processor worked for others", "it was its own work", "it waited for a disk"],
)
def test_a_request_is_paid_by_the_work_it_was(took_ns: int, computed_ns: int, owes: bool) -> None:
    costs: list[int] = []
    connection: Any = SimpleNamespace(
        slow_kind=None,
        costs=lambda ns, **_kind: costs.append(ns),
        server=SimpleNamespace(
            poller=SimpleNamespace(worked_ns=thread_time_ns() - computed_ns),
            turn=SimpleNamespace(is_on=False, is_late=False),
        ),
    )
    Dispatcher(None, lambda _key: None, {})._took(connection, PRODUCE, took_ns)
    assert costs == ([took_ns] if owes else [])
    assert connection.slow_kind is TRAITS[PRODUCE]
