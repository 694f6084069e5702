"""Lines that could fill the log are logged once, then counted."""

import logging

import pytest

from kpybroker.requests.server.complaints import MOST_KINDS, QUIET_MS, Complaints
from kpybroker.runtime.io.scheduler import ManualScheduler

log = logging.getLogger("kpybroker.complaints")


@pytest.fixture
def scheduler(caplog: pytest.LogCaptureFixture) -> ManualScheduler:
    caplog.set_level(logging.INFO, log.name)
    return ManualScheduler()


def test_the_first_line_is_logged_and_repeats_are_counted(
    scheduler: ManualScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(scheduler)
    for number in range(1000):
        complaints.say(log, logging.INFO, "full", "full for the time number %d", number)
    complaints.say(log, logging.INFO, "something else", "something else")
    assert caplog.messages == ["full for the time number 0", "something else"]
    scheduler.advance(QUIET_MS)
    assert caplog.messages[2:] == ["999 more such lines in 10 s: full"]


def test_a_complaint_that_returns_is_logged_again(scheduler: ManualScheduler, caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(scheduler)
    for _ in range(2):
        complaints.say(log, logging.WARNING, "full", "full")
        scheduler.advance(QUIET_MS)
    assert caplog.messages == ["full", "full"]


def test_a_lasting_complaint_is_logged_every_ten_seconds(
    scheduler: ManualScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(scheduler)
    for _ in range(100):
        complaints.say(log, logging.INFO, "full", "full")
        scheduler.advance(1000)
    assert caplog.messages == ["full", *["9 more such lines in 10 s: full"], *["10 more such lines in 10 s: full"] * 9]


def test_kinds_that_somebody_else_chooses_take_bounded_memory_and_log(
    scheduler: ManualScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    complaints = Complaints(scheduler)
    for number in range(10 * MOST_KINDS):
        complaints.say(log, logging.INFO, f"kind {number}", "one")
    assert len(caplog.messages) == MOST_KINDS + 1
