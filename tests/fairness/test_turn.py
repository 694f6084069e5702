"""Replies of a turn leave after its appends are written, or not at all."""

from kpybroker.runtime.fairness.times import LONGEST_NS
from kpybroker.runtime.fairness.turn import UNWRITTEN, Turn


class Log:
    """Notes in ``notified`` what happens in what order."""

    def __init__(self, notified: list[str]) -> None:
        self.notified = notified
        self.works = True

    def gather(self) -> None:
        self.notified.append("gather")

    def settle(self) -> bool:
        self.notified.append("write")
        return self.works

    def stop_gathering(self) -> None:
        self.notified.append("stop")


class Client:
    def __init__(self, notified: list[str], answered_ns: int = 0) -> None:
        self.notified = notified
        self.answered_ns = answered_ns
        self.closed = False

    def answer(self, reply: bytes) -> None:
        self.notified.append(reply.decode())

    def give_up(self, reason: str) -> None:
        self.notified.append(reason)


def begun() -> tuple[list[str], Log, Turn]:
    notified: list[str] = []
    log = Log(notified)
    turn = Turn(log)
    turn.begin(1000)
    return notified, log, turn


def test_replies_leave_at_the_end_in_their_order() -> None:
    notified, _, turn = begun()
    assert turn.is_on
    turn.put(Client(notified), b"first")
    turn.put(Client(notified), b"second")
    assert notified == ["gather"]
    turn.end()
    assert notified == ["gather", "stop", "write", "first", "second"]
    assert not turn.is_on


def test_a_long_turn_answers_in_between() -> None:
    notified, _, turn = begun()
    turn.put(Client(notified, 1000 + LONGEST_NS), b"in time")
    assert notified == ["gather"]
    turn.put(Client(notified, 1001 + LONGEST_NS), b"late")
    assert notified == ["gather", "write", "in time", "late"]
    turn.put(Client(notified, 1002 + LONGEST_NS), b"rest")
    turn.end()
    assert notified[4:] == ["stop", "write", "rest"]


def test_a_disconnected_client_is_not_answered() -> None:
    notified, _, turn = begun()
    gone = Client(notified)
    turn.put(gone, b"nobody's")
    gone.closed = True
    turn.end()
    assert notified == ["gather", "stop", "write"]


def test_a_failed_write_delays_all_answers_to_the_next_turn() -> None:
    notified, log, turn = begun()
    log.works = False
    assert not turn.settle()
    log.works = True
    assert not turn.settle()
    turn.put(Client(notified), b"success")
    turn.end()
    assert notified[-1] == UNWRITTEN
    turn.begin(0)
    assert turn.settle()
    turn.put(Client(notified), b"success")
    turn.end()
    assert notified[-1] == "success"
