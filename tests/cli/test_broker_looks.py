"""Questions to brokers are asked at the same time, and an answer or its error is kept."""

import threading
from typing import Any

import pytest

from kpybroker.cli.broker_looks import MOST_AT_ONCE, BrokerAnswer, all_at_once, begin
from kpybroker.client.connection import Unreachable

PATIENCE_S = 30.0


class Look:
    """A look that is over when the others are under way, too."""

    def __init__(self, meeting: threading.Barrier) -> None:
        self.run = self._run
        self._meeting = meeting
        self.over = threading.Event()

    def _run(self) -> None:
        self._meeting.wait(PATIENCE_S)
        self.over.set()


def test_brokers_are_asked_at_the_same_time() -> None:
    meeting = threading.Barrier(3)
    looks: list[Any] = [Look(meeting) for _ in range(3)]
    begin(looks)
    assert all(each.over.wait(PATIENCE_S) for each in looks)


def test_more_brokers_than_are_asked_at_once_get_their_turn() -> None:
    looks: list[Any] = [Look(threading.Barrier(1)) for _ in range(3 * MOST_AT_ONCE)]
    begin(looks)
    assert all(each.over.wait(PATIENCE_S) for each in looks)


def test_functions_that_wait_for_one_another_are_called_at_once() -> None:
    meeting = threading.Barrier(2)
    assert sorted(all_at_once([lambda: meeting.wait(PATIENCE_S)] * 2)) == [0, 1]


def test_an_answer_or_its_error_is_there_as_often_as_it_is_needed() -> None:
    asked = []

    def refused() -> int:
        asked.append(1)
        raise Unreachable("no broker answers")

    answer, failed = BrokerAnswer(lambda: 7), BrokerAnswer(refused)
    for each in (answer, failed):
        each.settle()
    for _ in range(2):
        assert answer.value == 7
        with pytest.raises(Unreachable, match="no broker answers"):
            assert failed.value
    assert asked == [1]
