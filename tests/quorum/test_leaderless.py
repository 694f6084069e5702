"""A quorum without a leader is logged once for each reason, and not while it only elects."""

import logging

import pytest

from kpybroker.hosts.quorum.leaderless import PATIENCE_MS, Leaderless
from kpybroker.runtime.io.scheduler import ManualScheduler


def test_a_lasting_absence_of_a_leader_is_logged_once_per_reason(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "kpybroker.controller")
    scheduler = ManualScheduler()
    is_led = [True]
    troubles = {"two:9093": "Connection refused", "one:9093": "no answer within 2000 ms"}
    watch = Leaderless(scheduler, lambda: is_led[0], lambda: troubles)
    watch.start()
    scheduler.advance(2 * PATIENCE_MS)
    is_led[0] = False
    scheduler.advance(PATIENCE_MS)
    assert caplog.messages == [], "it may be an election"
    scheduler.advance(5 * PATIENCE_MS)
    known = "No leader of the quorum is known: "
    expected = [known + "one:9093: no answer within 2000 ms; two:9093: Connection refused"]
    assert caplog.messages == expected
    troubles.clear()
    scheduler.advance(2 * PATIENCE_MS)
    expected.append(known + "nobody who answers knows of one")
    assert caplog.messages == expected
    is_led[0] = True
    scheduler.advance(PATIENCE_MS)
    is_led[0] = False
    watch.stop()
    scheduler.advance(9 * PATIENCE_MS)
    assert caplog.messages == expected
