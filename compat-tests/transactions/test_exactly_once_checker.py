"""The checker finds every kind of anomaly in a history that has it, and nothing in one that has none."""

from collections.abc import Callable
from random import Random

import pytest

from exactly_once.checker import KINDS, check
from exactly_once.history import Committed, History, Outcome, Partition, Poll, Position, Seen, Send, Transaction

IN, OUT = ("in", 0), ("out", 0)
GROUP = "workers"


def transaction(
    number: int,
    *values: str,
    outcome: Outcome = Outcome.COMMITTED,
    process: str = "producer",
    partition: Partition = OUT,
) -> Transaction:
    """The ``number``-th, which lasts from one second to the next."""
    sends = [Send(partition, value) for value in values]
    return Transaction(process, number, number + 0.5, number + 0.9, outcome, sends)


def log(*values: str, partition: Partition = OUT) -> list[Seen]:
    """Values at the offsets 0, 2, 4, since markers lie in between."""
    return [Seen(partition, 2 * number, value) for number, value in enumerate(values)]


def poll(at_s: float, *seen: Seen, session: str = "reader") -> Poll:
    return Poll(session, at_s, seen)


def answer(at_s: float, offset: int) -> Committed:
    return Committed(at_s, at_s + 0.1, Position(GROUP, IN, offset))


def working(number: int, offset: int, *values: str, outcome: Outcome = Outcome.COMMITTED) -> Transaction:
    """Reads the value at ``offset`` of IN, sends, commits that it has come behind it."""
    inputs = [Seen(IN, offset, f"i{offset}")]
    return transaction(number, *values, outcome=outcome)._replace(
        inputs=inputs, positions=[Position(GROUP, IN, offset + 1)]
    )


ABORTED, UNKNOWN = Outcome.ABORTED, Outcome.UNKNOWN
INPUTS = log("i0", "i2", partition=IN)
WRITTEN = transaction(0, "i0", "i2", process="source", partition=IN)
BAD = {
    "lost write": History([transaction(0, "a", "b")], log=log("a")),
    "duplicate": History([transaction(0, "a")], log=log("a", "a")),
    "phantom": History([transaction(0, "a")], log=log("a", "b")),
    "aborted read": History([transaction(0, "a", outcome=ABORTED)], [poll(3, *log("a"))]),
    "dirty read": History([transaction(0, "a")], [poll(0.2, *log("a"))], log=log("a")),
    "torn transaction": History([transaction(0, "a", "b", outcome=UNKNOWN)], log=log("a")),
    "reordered write": History([transaction(0, "a"), transaction(1, "b")], log=log("b", "a")),
    "non-monotonic poll": History([transaction(0, "a", "b")], [poll(2, *reversed(log("a", "b")))], log=log("a", "b")),
    "skipped read": History(
        [transaction(0, "a", "b", "c")], [poll(2, log("a", "b", "c")[0], log("a", "b", "c")[2])], log=log("a", "b", "c")
    ),
    "changed content": History(
        [transaction(0, "a", "b")], [poll(2, Seen(OUT, 0, "b"))], log=[Seen(OUT, 0, "a"), Seen(OUT, 2, "b")]
    ),
    "worked on twice": History([WRITTEN, working(1, 0, "a"), working(2, 0, "b")], log=log("a", "b") + INPUTS),
    "never worked on": History([WRITTEN, working(1, 0, "a")], log=log("a") + INPUTS, worked_on=["in"]),
    "commit that comes back": History(
        [WRITTEN, working(1, 0, "a"), working(2, 2, "b")],
        committed=[answer(5, 1), answer(7, 3)],
        log=log("a", "b") + INPUTS,
    ),
    "torn position": History(
        [WRITTEN, working(1, 0, "a", outcome=UNKNOWN)],
        committed=[answer(5, -1)],
        log=log("a") + INPUTS,
    ),
}
"""For each kind a history that has this one."""

SUBTLE = {
    "a committed value that stands in another partition": (
        "duplicate",
        History([transaction(0, "a")], log=log("a", partition=("out", 1))),
    ),
    "an input that was aborted": (
        "aborted read",
        History([WRITTEN._replace(outcome=ABORTED), working(1, 0, "a")], log=log("a")),
    ),
    "a read of what is nowhere later on": (
        "dirty read",
        History([transaction(0, "a", outcome=UNKNOWN)], [poll(3, *log("a"))]),
    ),
    "an acknowledged offset that holds something else": (
        "changed content",
        History([transaction(0, "b"), transaction(1)._replace(sends=[Send(OUT, "a", 0)])], log=log("b", "a")),
    ),
    "a position of an aborted transaction": (
        "commit that comes back",
        History([WRITTEN, working(1, 0, outcome=ABORTED)], committed=[answer(5, 1)], log=INPUTS),
    ),
    "a position of a transaction whose values are not there": (
        "commit that comes back",
        History([WRITTEN, working(1, 0, "a", outcome=UNKNOWN)], committed=[answer(5, 1)], log=INPUTS),
    ),
    "an answer that is older than the one before": (
        "commit that comes back",
        History(committed=[answer(1, 7), answer(2, 6)]),
    ),
    "a value that came again in a later poll": (
        "non-monotonic poll",
        History([transaction(0, "a")], [poll(2, *log("a")), poll(3, *log("a"))], log=log("a")),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_found_and_nothing_else(kind: str) -> None:
    found = check(BAD[kind])
    assert {anomaly.kind for anomaly in found} == {kind}, found


@pytest.mark.parametrize("story", SUBTLE)
def test_the_less_obvious_forms_are_found(story: str) -> None:
    kind, history = SUBTLE[story]
    assert kind in {anomaly.kind for anomaly in check(history)}


GOOD = {
    "nothing": History(),
    "an unknown end that took effect": History([transaction(0, "a", "b", outcome=UNKNOWN)], log=log("a", "b")),
    "an unknown end that did not": History([transaction(0, "a", "b", outcome=UNKNOWN)]),
    "an aborted one nobody saw": History([transaction(0, "a", outcome=ABORTED)]),
    "a consumer that started again": History(
        [transaction(0, "a")], [poll(2, *log("a")), poll(3, *log("a"), session="again")], log=log("a")
    ),
    "an input that was tried twice": History(
        [WRITTEN, working(1, 0, "a", outcome=ABORTED), working(2, 0, "b"), working(3, 2, "c")],
        committed=[answer(1.6, -1), answer(2.6, 1), answer(9, 3)],
        log=log("b", "c") + INPUTS,
        worked_on=["in"],
    ),
    "two answers at the same time": History(
        committed=[Committed(1, 3, Position(GROUP, IN, 7)), Committed(1, 2, Position(GROUP, IN, 8))]
    ),
}


@pytest.mark.parametrize("story", GOOD)
def test_allowed_histories_are_no_anomalies(story: str) -> None:
    assert check(GOOD[story]) == []


def ideal(rng: Random, count: int) -> History:
    """A history of a broker that makes no mistake: transactions one after the other, on three partitions."""
    ends = [0, 0, 0]
    transactions, seen = [], []
    for number in range(count):
        outcome = rng.choice([Outcome.COMMITTED, Outcome.COMMITTED, ABORTED, UNKNOWN])
        takes_effect = outcome is Outcome.COMMITTED or (outcome is UNKNOWN and rng.random() < 0.5)
        sends = []
        for place in range(rng.randrange(1, 5)):
            index = rng.randrange(3)
            send = Send(("out", index), f"{number}/{place}", ends[index])
            ends[index] += 1
            sends.append(send)
            if takes_effect:
                seen.append(Seen(send.partition, ends[index] - 1, send.value))
        process = f"producer-{rng.randrange(3)}"
        transactions.append(Transaction(process, number, number + 0.5, number + 0.9, outcome, sends))
    polls = [Poll("reader", count + at, seen[at : at + 7]) for at in range(0, len(seen), 7)]
    return History(transactions, polls, log=seen)


def lose(rng: Random, history: History) -> History:
    kept = set(rng.sample(range(len(history.log)), len(history.log) - 1))
    return history._replace(log=[seen for number, seen in enumerate(history.log) if number in kept])


def repeat(rng: Random, history: History) -> History:
    seen = rng.choice(history.log)
    return history._replace(log=[*history.log, seen._replace(offset=seen.offset + 1000)])


def show_aborted(rng: Random, history: History) -> History:
    send = rng.choice([send for each in history.transactions if each.outcome is ABORTED for send in each.sends])
    return history._replace(log=[*history.log, Seen(send.partition, 5000, send.value)])


@pytest.mark.parametrize("seed", range(20))
def test_a_faultless_history_is_found_faultless_and_one_fault_in_it_is_found(seed: int) -> None:
    rng = Random(seed)
    history = ideal(rng, 60)
    assert check(history) == []
    faults: list[Callable[[Random, History], History]] = [lose, repeat, show_aborted]
    for fault in faults:
        assert check(fault(rng, history)) != []
