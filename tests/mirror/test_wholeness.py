"""The places of mirrored partitions: no transaction is torn there, whatever order everything arrives in."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from kpybroker.machines.mirror.cuts import HeldMarker, LeaderReport, Place, SettledCut
from kpybroker.machines.mirror.decisions import CommitDecision, SourceDecisions
from kpybroker.machines.mirror.wholeness import Wholeness

PLACES: list[Place] = [(b"t", index) for index in range(3)]
PRODUCERS = 4
"""The first half of them have an epoch for each transaction."""
ROUNDS = 12


class Entry(NamedTuple):
    """A record or a marker at the source. ``commits`` is None for a record."""

    producer: int
    epoch: int
    transaction: int
    commits: bool | None


class Producer:
    """A transactional producer and its coordinator at the source."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.has_own_epochs = number < PRODUCERS // 2
        self.epoch = 0
        self.transaction = -1
        self.partitions: set[Place] = set()
        self.missing: set[Place] | None = None
        self.commits = False

    def decision(self) -> CommitDecision:
        partitions = frozenset(("t", index) for _, index in self.partitions)
        return CommitDecision(self.number, self.epoch, partitions, self.has_own_epochs)


class Mirroring:
    """A source with transactions over partitions, the leaders of its mirror, and the broker that finds the places."""

    def __init__(self) -> None:
        self.logs: dict[Place, list[Entry]] = {place: [] for place in PLACES}
        self.states: list[tuple[str, CommitDecision | None]] = []
        self.producers = [Producer(number) for number in range(PRODUCERS)]
        self.transactions = 0
        self.outcomes: dict[int, set[Place]] = {}
        self.copied = dict.fromkeys(PLACES, 0)
        self.epochs = dict.fromkeys(PLACES, 0)
        self.held_from: dict[Place, int | None] = dict.fromkeys(PLACES)
        self.reported: dict[Place, int] = {}
        self.shown = dict.fromkeys(PLACES, 0)
        self.published: dict[Place, int] = {}
        self.restart_finder()

    # The source

    def write(self, producer: int, places: set[Place]) -> None:
        each = self.producers[producer]
        if each.missing is not None:
            return
        if each.transaction < 0:
            self.transactions += 1
            each.transaction = self.transactions
        each.partitions |= places
        if self.transactions % 7 == 0:
            places = places - {PLACES[0]}  # it is named, and gets no record
        for place in sorted(places):
            self.logs[place].append(Entry(producer, each.epoch, each.transaction, None))

    def decide(self, producer: int, commits: bool) -> None:
        each = self.producers[producer]
        if each.transaction < 0 or each.missing is not None:
            return
        each.epoch += each.has_own_epochs
        each.missing, each.commits = set(each.partitions), commits
        if commits:
            self.outcomes[each.transaction] = set(each.partitions)
        self.states.append((f"p{producer}", each.decision() if commits else None))

    def mark(self, producer: int, place: Place, again: bool) -> None:
        """Write a marker; a coordinator that lost its connection writes it again."""
        each = self.producers[producer]
        if each.missing is None or place not in (each.partitions if again else each.missing):
            return
        each.missing.discard(place)
        self.logs[place].append(Entry(producer, each.epoch, each.transaction, each.commits))

    def complete(self, producer: int) -> None:
        each = self.producers[producer]
        if each.missing == set():
            self.states.append((f"p{producer}", None))
            each.transaction, each.missing, each.partitions = -1, None, set()

    def commit_at_once(self, producer: int, places: set[Place]) -> None:
        self.write(producer, places)
        self.decide(producer, True)
        self._end(self.producers[producer])

    def _end(self, each: Producer) -> None:
        for place in sorted(each.missing or ()):
            self.mark(each.number, place, False)
        self.complete(each.number)

    # The leaders here

    def copy(self, place: Place, count: int) -> None:
        self.copied[place] = min(self.copied[place] + count, len(self.logs[place]))
        self._show()

    def hold(self, place: Place) -> None:
        """A leader whose partition has no place begins to hold markers back."""
        if place not in self.published and self.held_from[place] is None:
            self.held_from[place] = self.shown[place]

    def elect(self, place: Place) -> None:
        self.epochs[place] += 1
        self.reported.pop(place, None)
        if place not in self.published:
            self.held_from[place] = self.shown[place] if place in self.holding else None

    def _first(self, place: Place) -> int | None:
        return self.published.get(place, self.held_from[place])

    def _markers(self, place: Place, first: int, end: int) -> Iterator[HeldMarker]:
        started: set[int] = set()
        for offset in range(self._first(place) or 0, end):
            entry = self.logs[place][offset]
            if entry.commits is None:
                started.add(entry.producer)
                continue
            if entry.commits and offset >= first:
                yield HeldMarker(offset, entry.producer, entry.epoch, entry.producer not in started)
            started.discard(entry.producer)

    def _limit(self, place: Place) -> int:
        """The offset at which a failover cuts the log."""
        first, end = self._first(place), self.copied[place]
        markers = iter(()) if first is None else self._markers(place, first, end)
        return next((each.offset for each in markers), end)

    def _show(self) -> None:
        for place in PLACES:
            self.shown[place] = max(self.shown[place], self._limit(place))

    def report(self, place: Place) -> None:
        first = self._first(place)
        if first is None:
            return
        first = max(self.reported.get(place, first), first)
        end = max(self.copied[place], first)
        report = LeaderReport(self.epochs[place], first, end, end, tuple(self._markers(place, first, end)))
        assert self.wholeness.report(place, report)
        self.reported[place] = end
        self.holding.add(place)

    # The broker that finds the places

    def restart_finder(self) -> None:
        self.wholeness = Wholeness(self.published)
        self.read_to = len(self.states)
        pending = [(f"p{each.number}", each.number) for each in self.producers if each.missing is not None]
        self.decisions = SourceDecisions(pending)
        self.reported.clear()
        self.holding: set[Place] = set()
        """The partitions of which some leader has reported markers to this finder: later leaders hold them, too."""
        self.number = 0
        self.ends: dict[Place, int] | None = None

    def begin_cut(self) -> None:
        if self.ends is None:
            self.number, self.ends = self.wholeness.begin_cut(), {}

    def ask_for_end(self, place: Place) -> None:
        if self.ends is not None:
            self.ends.setdefault(place, len(self.logs[place]))

    def end_cut(self) -> None:
        if self.ends is None or len(self.ends) < len(PLACES):
            return
        for name, decision in self.states[self.read_to :]:
            self.decisions.apply(name, decision)
            if decision is not None:
                self.wholeness.decided(decision, frozenset((b"t", index) for _, index in decision.partitions))
        self.read_to = len(self.states)
        self.wholeness.cut(SettledCut(self.number, self.ends, self.decisions.take_unsettled()))
        self.ends = None

    def cut_at_once(self) -> None:
        self.begin_cut()
        for place in PLACES:
            self.ask_for_end(place)
        self.end_cut()

    def advance(self) -> None:
        grown = self.wholeness.advance()
        for place, offset in grown.items():
            assert offset > self.published.get(place, -1)
        self.published.update(grown)
        self._show()

    # What has to hold

    def no_transaction_is_torn_and_nothing_shown_is_cut_off(self) -> None:
        ends = {place: self._limit(place) for place in self.published}
        for place, end in ends.items():
            assert self.shown[place] <= end, "a failover would cut off what was shown"
        whole: dict[int, set[Place]] = {}
        for place, end in ends.items():
            for entry in self.logs[place][:end]:
                if entry.commits:
                    whole.setdefault(entry.transaction, set()).add(place)
        for transaction, there in whole.items():
            assert there == self.outcomes[transaction] & ends.keys(), "a failover would tear a transaction"

    def finish(self) -> None:
        for each in self.producers:
            self._end(each)
        for _ in range(ROUNDS):
            for place in PLACES:
                self.copy(place, 1 << 20)
                self.hold(place)
                self.report(place)
            self.cut_at_once()
            self.advance()
        assert self.shown == {place: len(found) for place, found in self.logs.items()}
        assert self.published.keys() == set(PLACES)


STEPS = 250


def run(seed: int) -> None:
    """A history with steps of random kinds, some of which are rare or absent in it."""
    random, mirroring = Random(seed), Mirroring()

    def producer() -> int:
        return random.randrange(PRODUCERS)

    def place() -> Place:
        return random.choice(PLACES)

    def several() -> set[Place]:
        return set(random.sample(PLACES, random.randint(1, len(PLACES))))

    steps: list[tuple[float, Callable[[], None]]] = [
        (2, lambda: mirroring.write(producer(), several())),
        (2, lambda: mirroring.decide(producer(), random.random() < 0.8)),
        (4, lambda: mirroring.mark(producer(), place(), random.random() < 0.2)),
        (2, lambda: mirroring.complete(producer())),
        (2, lambda: mirroring.commit_at_once(producer(), several())),
        (4, lambda: mirroring.copy(place(), random.randint(1, 8))),
        (1, lambda: mirroring.copy(place(), 1 << 20)),
        (1, lambda: mirroring.hold(place())),
        (0.1, lambda: mirroring.elect(place())),
        (4, lambda: mirroring.report(place())),
        (0.1, mirroring.restart_finder),
        (3, mirroring.begin_cut),
        (6, lambda: mirroring.ask_for_end(place())),
        (3, mirroring.end_cut),
        (0.5, mirroring.cut_at_once),
        (3, mirroring.advance),
    ]
    weights = [weight * random.choice((0.1, 1, 1, 3)) for weight, _ in steps]
    for _, step in random.choices(steps, weights, k=STEPS):
        step()
        mirroring.no_transaction_is_torn_and_nothing_shown_is_cut_off()
    mirroring.finish()


@given(st.integers(0, 1 << 60))
@settings(max_examples=300, deadline=None)
def test_no_transaction_is_torn_and_all_is_shown_in_the_end(seed: int) -> None:
    run(seed)
