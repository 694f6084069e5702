"""Transactions of three clients while broker and programs are killed, paused and doubled: no anomaly in what they saw.

The long form is ``make exactly-once``. What an anomaly is, is in ``exactly_once/checker.py``.
"""

from pathlib import Path

import pytest

from conftest import StartBroker
from exactly_once.__main__ import SETTINGS, counts
from exactly_once.clients import CLIENTS
from exactly_once.history import Outcome
from exactly_once.run import run

SECONDS = 12.0


@pytest.mark.timeout(400)
def test_what_transactions_promise_is_kept_through_kills_pauses_and_zombies(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    verdict = run(start_broker(**SETTINGS), tmp_path, SECONDS, seed=2, clients=tuple(CLIENTS))
    assert verdict.anomalies == [], counts(verdict)
    assert verdict.counted(Outcome.COMMITTED) > 50
    assert verdict.counted(Outcome.ABORTED) > 0
    assert len(verdict.troubles) >= 2
