"""The faults in a history: the anomalies that transactions exclude, each with its evidence. Pure.

The names are those of Jepsen's analyses of Kafka and Redpanda and of Adya's phenomena (G1a is the aborted read). A
transaction whose client does not know its outcome may have any, but one and the same everywhere.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from exactly_once.history import Committed, History, Outcome, Partition, Poll, Position, Seen, Transaction


class Anomaly(NamedTuple):
    """``kind`` is one of `KINDS`."""

    kind: str
    evidence: str


def check(history: History) -> list[Anomaly]:
    """All anomalies, by kind; none when the history is one of a broker that keeps its promises."""
    facts = Facts(history)
    return [Anomaly(kind, evidence) for kind, find in KINDS.items() for evidence in find(facts)]


class Facts:
    """A history, looked up by value."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sender = {send.value: of for of in history.transactions for send in of.sends}
        self.places: dict[str, list[Seen]] = defaultdict(list)
        """The places where a value stands in the log."""
        for seen in history.log:
            self.places[seen.value].append(seen)
        self.read = [(poll, seen) for poll in history.polls for seen in poll.seen]

    def in_log(self, transaction: Transaction) -> list[bool]:
        """For each of its sends whether the log has it."""
        return [send.value in self.places for send in transaction.sends]

    def took_effect(self, transaction: Transaction) -> bool | None:
        """Whether it was committed, by its client or else by the log; None where nothing tells."""
        if transaction.outcome is not Outcome.UNKNOWN:
            return transaction.outcome is Outcome.COMMITTED
        return any(self.in_log(transaction)) if transaction.sends else None


def lost_writes(facts: Facts) -> Iterator[str]:
    """A value of a committed transaction is nowhere."""
    for transaction in facts.history.transactions:
        if transaction.outcome is Outcome.COMMITTED:
            for send in transaction.sends:
                if send.value not in facts.places:
                    yield f"{send.value} of {transaction.process} was committed and is not in {_name(send.partition)}"


def duplicates(facts: Facts) -> Iterator[str]:
    """A value stands in the log more than once, or elsewhere than it was sent to."""
    for value, places in facts.places.items():
        if len(places) > 1:
            yield f"{value} stands at {', '.join(_place(seen) for seen in places)}"
        sender = facts.sender.get(value)
        sent_to = None if sender is None else next(each.partition for each in sender.sends if each.value == value)
        if sent_to is not None and any(seen.partition != sent_to for seen in places):
            yield f"{value} was sent to {_name(sent_to)} and stands at {', '.join(_place(seen) for seen in places)}"


def phantoms(facts: Facts) -> Iterator[str]:
    """A value was read that nobody sent."""
    for seen in [*facts.history.log, *(seen for _, seen in facts.read)]:
        if seen.value not in facts.sender:
            yield f"{seen.value} at {_place(seen)} was sent by nobody"


def aborted_reads(facts: Facts) -> Iterator[str]:
    """A value of an aborted transaction was read (G1a)."""
    for seen in [*facts.history.log, *(seen for _, seen in facts.read), *_inputs(facts)]:
        sender = facts.sender.get(seen.value)
        if sender is not None and sender.outcome is Outcome.ABORTED:
            yield f"{seen.value} at {_place(seen)} is of an aborted transaction of {sender.process}"


def dirty_reads(facts: Facts) -> Iterator[str]:
    """A value was read before the end of its transaction was asked for, or is gone from the log later on."""
    for poll, seen in facts.read:
        sender = facts.sender.get(seen.value)
        if sender is None or sender.outcome is Outcome.ABORTED:
            continue
        if poll.ended_s < sender.ending_s:
            yield f"{seen.value} at {_place(seen)} was read before {sender.process} ended its transaction"
        elif seen.value not in facts.places:
            yield f"{seen.value} was read at {_place(seen)} and is not in the log"


def torn_transactions(facts: Facts) -> Iterator[str]:
    """Transactions of which some values are in the log and others are not."""
    for transaction in facts.history.transactions:
        found = facts.in_log(transaction)
        if transaction.outcome is Outcome.UNKNOWN and any(found) and not all(found):
            missing = next(send.value for send, is_there in zip(transaction.sends, found, strict=True) if not is_there)
            yield f"a transaction of {transaction.process} is in the log without {missing}"


def reordered_writes(facts: Facts) -> Iterator[str]:
    """Writes of one producer to one partition that stand there in another order."""
    latest: dict[tuple[str, Partition], Seen] = {}
    for transaction in facts.history.transactions:
        for send in transaction.sends:
            for seen in facts.places.get(send.value, ())[:1]:
                before = latest.get((transaction.process, send.partition))
                if before is not None and seen.offset < before.offset:
                    yield f"{seen.value} at {_place(seen)} was sent after {before.value} at {_place(before)}"
                latest[transaction.process, send.partition] = seen


def non_monotonic_polls(facts: Facts) -> Iterator[str]:
    """A consumer went back although nobody told it to."""
    for before, seen in _steps(facts.history.polls):
        if seen.offset <= before.offset:
            yield f"after {before.value} at {_place(before)} came {seen.value} at {_place(seen)}"


def skipped_reads(facts: Facts) -> Iterator[str]:
    """A consumer went past a value that is in the log."""
    offsets: dict[Partition, list[int]] = defaultdict(list)
    for seen in facts.history.log:
        offsets[seen.partition].append(seen.offset)
    number = {
        (partition, offset): place
        for partition, of_partition in offsets.items()
        for place, offset in enumerate(sorted(set(of_partition)))
    }
    for before, seen in _steps(facts.history.polls):
        first, second = number.get((before.partition, before.offset)), number.get((seen.partition, seen.offset))
        if first is not None and second is not None and second > first + 1:
            yield f"{second - first - 1} between {_place(before)} and {_place(seen)} were not read"


def changed_content(facts: Facts) -> Iterator[str]:
    """One offset had two values."""
    values: dict[tuple[Partition, int], str] = {(seen.partition, seen.offset): seen.value for seen in facts.history.log}
    others = [seen for _, seen in facts.read] + _inputs(facts)
    for transaction in facts.history.transactions:
        others += [
            Seen(send.partition, send.offset, send.value) for send in transaction.sends if send.offset is not None
        ]
    for seen in others:
        known = values.setdefault((seen.partition, seen.offset), seen.value)
        if known != seen.value:
            yield f"{_place(seen)} was {seen.value} and {known}"


def worked_on_twice(facts: Facts) -> Iterator[str]:
    """One value was an input of two transactions that took effect."""
    times: Counter[str] = Counter()
    for transaction in facts.history.transactions:
        if facts.took_effect(transaction):
            times.update({seen.value for seen in transaction.inputs})
    for value, count in times.items():
        if count > 1:
            yield f"{value} was worked on in {count} transactions that took effect"


def never_worked_on(facts: Facts) -> Iterator[str]:
    """A value of a topic that was to be worked on was the input of no transaction that may have taken effect."""
    done = {
        seen.value
        for transaction in facts.history.transactions
        if facts.took_effect(transaction) is not False
        for seen in transaction.inputs
    }
    for seen in facts.history.log:
        if seen.partition[0] in facts.history.worked_on and seen.value not in done:
            yield f"{seen.value} at {_place(seen)} was never worked on"


def commits_that_come_back(facts: Facts) -> Iterator[str]:
    """A group's position went back, or was one that only an aborted transaction wanted."""
    wanted, settled = _wanted(facts), _settled(facts)
    for answer in facts.history.committed:
        group, partition, offset = answer.position
        at = bisect_right(settled.times[group, partition], answer.began_s)
        floor = settled.floors[group, partition][at - 1] if at else -1
        if offset < floor:
            yield f"{_position(answer.position)} was read after {floor} was committed"
        if not wanted.get((group, partition, offset), True):
            yield f"{_position(answer.position)} was read and only transactions without effect wanted it"
    for before, after in _answers_in_order(facts.history.committed):
        if after.position.offset < before.position.offset:
            yield f"{_position(after.position)} was read after {_position(before.position)}"


def torn_positions(facts: Facts) -> Iterator[str]:
    """A transaction's values are in the log, and the last answer is that its group has not come so far."""
    last: dict[tuple[str, Partition], Committed] = {}
    for answer in facts.history.committed:
        key = answer.position.group, answer.position.partition
        if key not in last or last[key].began_s < answer.began_s:
            last[key] = answer
    for transaction in facts.history.transactions:
        if not any(facts.in_log(transaction)):
            continue
        for position in transaction.positions:
            final = last.get((position.group, position.partition))
            if final and final.began_s >= transaction.ended_s and final.position.offset < position.offset:
                yield f"{_position(position)} of {transaction.process} has values in the log and is not committed"


KINDS = {
    "lost write": lost_writes,
    "duplicate": duplicates,
    "phantom": phantoms,
    "aborted read": aborted_reads,
    "dirty read": dirty_reads,
    "torn transaction": torn_transactions,
    "reordered write": reordered_writes,
    "non-monotonic poll": non_monotonic_polls,
    "skipped read": skipped_reads,
    "changed content": changed_content,
    "worked on twice": worked_on_twice,
    "never worked on": never_worked_on,
    "commit that comes back": commits_that_come_back,
    "torn position": torn_positions,
}
"""Each with what finds it."""


def _inputs(facts: Facts) -> list[Seen]:
    return [seen for transaction in facts.history.transactions for seen in transaction.inputs]


def _steps(polls: Sequence[Poll]) -> Iterator[tuple[Seen, Seen]]:
    """Neighbouring records that a session read of a partition."""
    latest: dict[tuple[str, Partition], Seen] = {}
    for poll in polls:
        for seen in poll.seen:
            before = latest.get((poll.session, seen.partition))
            if before is not None:
                yield before, seen
            latest[poll.session, seen.partition] = seen


def _wanted(facts: Facts) -> dict[tuple[str, Partition, int], bool]:
    """The positions that transactions wanted to commit, and whether one of these may have taken effect."""
    wanted: dict[tuple[str, Partition, int], bool] = {}
    for transaction in facts.history.transactions:
        may_count = facts.took_effect(transaction) is not False
        for position in transaction.positions:
            wanted[position] = wanted.get(position, False) or may_count
    return wanted


class Settled(NamedTuple):
    """Per group and partition: at what times positions were known to be committed, and the largest up to each."""

    times: dict[tuple[str, Partition], list[float]]
    floors: dict[tuple[str, Partition], list[int]]


def _settled(facts: Facts) -> Settled:
    settled = Settled(defaultdict(list), defaultdict(list))
    for transaction in sorted(facts.history.transactions, key=lambda each: each.ended_s):
        if transaction.outcome is Outcome.COMMITTED:
            for group, partition, offset in transaction.positions:
                floors = settled.floors[group, partition]
                floors.append(max(offset, floors[-1] if floors else -1))
                settled.times[group, partition].append(transaction.ended_s)
    return settled


def _answers_in_order(answers: Sequence[Committed]) -> Iterator[tuple[Committed, Committed]]:
    """Two answers about the same group and partition of which the second was asked for after the first was there."""
    of_partition: dict[tuple[str, Partition], list[Committed]] = defaultdict(list)
    for answer in sorted(answers, key=lambda each: each.ended_s):
        of_partition[answer.position.group, answer.position.partition].append(answer)
    for each in of_partition.values():
        yield from ((before, after) for before, after in pairwise(each) if before.ended_s <= after.began_s)


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _place(seen: Seen) -> str:
    return f"{_name(seen.partition)}:{seen.offset}"


def _position(position: Position) -> str:
    return f"{position.group} at {_name(position.partition)}:{position.offset}"
