"""Replies of a turn leave after its appends are written, or not at all."""

from kpybroker.runtime.fairness.times import LONGEST_NS
from kpybroker.runtime.fairness.turn import UNWRITTEN, Turn


class Log:
    """Notes in ``told`` what happens in what order."""

    def __init__(self, told: list[str]) -> None:
        self.told = told
        self.works = True

    def gather(self) -> None:
        self.told.append("gather")

    def settle(self) -> bool:
        self.told.append("write")
        return self.works

    def stop_gathering(self) -> None:
        self.told.append("stop")


class Client:
    def __init__(self, told: list[str], answered_ns: int = 0) -> None:
        self.told = told
        self.answered_ns = answered_ns
        self.closed = False

    def answer(self, reply: bytes) -> None:
        self.told.append(reply.decode())

    def give_up(self, reason: str) -> None:
        self.told.append(reason)


def begun() -> tuple[list[str], Log, Turn]:
    told: list[str] = []
    log = Log(told)
    turn = Turn(log)
    turn.begin(1000)
    return told, log, turn


def test_replies_leave_at_the_end_in_their_order() -> None:
    told, _, turn = begun()
    assert turn.is_on
    turn.put(Client(told), b"first")
    turn.put(Client(told), b"second")
    assert told == ["gather"]
    turn.end()
    assert told == ["gather", "stop", "write", "first", "second"]
    assert not turn.is_on


def test_a_long_turn_answers_in_between() -> None:
    told, _, turn = begun()
    turn.put(Client(told, 1000 + LONGEST_NS), b"in time")
    assert told == ["gather"]
    turn.put(Client(told, 1001 + LONGEST_NS), b"late")
    assert told == ["gather", "write", "in time", "late"]
    turn.put(Client(told, 1002 + LONGEST_NS), b"rest")
    turn.end()
    assert told[4:] == ["stop", "write", "rest"]


def test_who_has_left_is_not_answered() -> None:
    told, _, turn = begun()
    gone = Client(told)
    turn.put(gone, b"nobody's")
    gone.closed = True
    turn.end()
    assert told == ["gather", "stop", "write"]


def test_nobody_is_answered_when_a_write_fails_until_the_next_turn() -> None:
    told, log, turn = begun()
    log.works = False
    assert not turn.settle()
    log.works = True
    assert not turn.settle()
    turn.put(Client(told), b"success")
    turn.end()
    assert told[-1] == UNWRITTEN
    turn.begin(0)
    assert turn.settle()
    turn.put(Client(told), b"success")
    turn.end()
    assert told[-1] == "success"
