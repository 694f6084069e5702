"""The simulation is worth something: a coordinator with a defect does not get through it."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from simulation import Simulation

from kpybroker.machines.transactions import coordinator, markers, partitions
from kpybroker.machines.transactions.transaction import Transaction

SEEDS_AT_MOST = 300


def forgets_what_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_wake", lambda *_: True)


def completes_with_the_first_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    mark = markers._mark

    def mark_all(shard: Any, transactional_id: str, written: Any, decision: Any) -> None:
        shard.unmarked[transactional_id].clear()
        mark(shard, transactional_id, written, decision)

    monkeypatch.setattr(markers, "_mark", mark_all)


def lets_zombies_write(monkeypatch: pytest.MonkeyPatch) -> None:
    find = partitions._find

    def find_any(shard: Any, message: Any, *, is_read: bool = False) -> Any:
        transaction = shard.transactions.get(message.transactional_id)
        is_open = transaction is not None and not transaction.is_prepared
        return transaction if is_open else find(shard, message, is_read=is_read)

    monkeypatch.setattr(partitions, "_find", find_any)


def keeps_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = Transaction.prepared

    def unbumped(self: Transaction, state: Any, client_version: int, next_id: int, timestamp_ms: int) -> Transaction:
        return prepared(self, state, 0, next_id, timestamp_ms)._replace(client_version=client_version)

    monkeypatch.setattr(Transaction, "prepared", unbumped)


def run_simulations() -> None:
    for seed in range(SEEDS_AT_MOST):
        rng = Random(seed)
        Simulation(seed, crashes=rng.randrange(6), level=rng.choice((1, 2, 2))).run()


@pytest.mark.parametrize(
    "defect", [forgets_what_was_decided, completes_with_the_first_marker, lets_zombies_write, keeps_the_epoch]
)
def test_a_coordinator_that_is_wrong_is_found_out(
    monkeypatch: pytest.MonkeyPatch, defect: Callable[[pytest.MonkeyPatch], None]
) -> None:
    defect(monkeypatch)
    with pytest.raises(AssertionError):
        run_simulations()
