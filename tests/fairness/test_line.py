"""The line: pieces by turns, the loop in between, and an account for what cannot be cut into pieces."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.runtime.fairness.account import Account
from kpybroker.runtime.fairness.debtor import Debtor
from kpybroker.runtime.fairness.line import Line
from kpybroker.runtime.fairness.times import (
    BRIEF_SLICE_NS,
    CREDIT_NS,
    LEAST_CHARGE_NS,
    LONG_NS,
    LONG_WHOLE_NS,
    LOOK_MS,
    MOMENT_NS,
    MOST_MOMENTS_NS,
    MOST_OWED_NS,
    NEWCOMER_OWES_NS,
    NOTICED_NS,
    OVERDRAWN_NS,
    PART_OF_LINE,
    PART_OF_NEWCOMERS,
    PAUSE_NS,
    PIECE_NS,
    QUIET_EVENTS,
    SAVED_NS,
    SHARE,
    SHORT_NS,
    SLICE_NS,
)
from kpybroker.runtime.fairness.trait import Trait

SECOND_NS = 1_000_000_000


MOST_TURNS = 10_000


class World:
    """A loop that is turned by hand, and a clock that stands still between pieces."""

    def __init__(self, *, busy: bool = True) -> None:
        self.time_ns = 0
        self.busy = busy
        self.soon: list[Callable[[], object]] = []
        self.timers: list[tuple[int, Callable[[], object]]] = []
        self.line = Line(self, self.events, lambda: 0, lambda: self.time_ns)  # type: ignore[arg-type]

    def events(self) -> int:
        return self.time_ns // 1_000_000 if self.busy else 0

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def call_later(self, delay_ms: float, callback: Callable[[], object]) -> None:
        self.timers.append((self.time_ns + int(delay_ms * 1e6), callback))

    def turn(self) -> bool:
        due, self.soon = self.soon, []
        for callback in due:
            callback()
        return bool(due)

    def finish(self) -> None:
        """Turn until nothing is due any more."""
        for _ in range(MOST_TURNS):
            if not self.turn():
                return
        raise AssertionError(f"something is due after {MOST_TURNS} turns")

    def pass_time(self, ns: int) -> None:
        """Let time pass, and everything happen that is due meanwhile."""
        until_ns = self.time_ns + ns
        while True:
            self.finish()
            self.timers.sort(key=lambda timer: timer[0])
            if not self.timers or self.timers[0][0] > until_ns:
                break
            at_ns, callback = self.timers.pop(0)
            self.time_ns = max(self.time_ns, at_ns)
            callback()
        self.time_ns = max(self.time_ns, until_ns)


class Client:
    """A client whose every request takes ``takes_ns``, and that asks again at once."""

    def __init__(self, world: World, takes_ns: int) -> None:
        self.world, self.takes_ns = world, takes_ns
        self.closed = False
        self.asks_again = True
        self.served_ns: list[int] = []

    def serve_piece(self) -> None:
        self.served_ns.append(self.world.time_ns)
        self.world.time_ns += self.takes_ns
        if self.takes_ns > LONG_NS:
            self.world.line.charge(self.takes_ns)
            if self.asks_again:
                self.world.line.join_long(self)


def test_a_turn_serves_one_piece_and_the_loop_comes_between() -> None:
    world = World()
    clients = [Client(world, PIECE_NS) for _ in range(3)]
    for client in clients:
        world.line.join(client.serve_piece)
    for count in (1, 2, 3):
        assert world.turn()
        assert sum(len(client.served_ns) for client in clients) == count
    assert not world.turn(), "nobody waits, and the loop is left alone"


def test_waiting_connections_are_served_in_arrival_order() -> None:
    world = World()
    served: list[str] = []

    def again() -> None:
        served.append("again")
        world.time_ns += PIECE_NS
        if len(served) < 4:
            world.line.join(again)

    def other() -> None:
        served.append("other")
        world.time_ns += PIECE_NS

    world.line.join(again)
    world.line.join(other)
    world.finish()
    assert served == ["again", "other", "again", "again"]


def test_pieces_that_are_short_share_a_turn() -> None:
    world = World()
    clients = [Client(world, SHORT_NS // 4) for _ in range(20)]
    for client in clients:
        world.line.join(client.serve_piece)
    world.turn()
    served = sum(len(client.served_ns) for client in clients)
    assert 4 <= served <= 6


@pytest.mark.parametrize(
    ("owed_ns", "part"), [(NEWCOMER_OWES_NS, PART_OF_NEWCOMERS), (NEWCOMER_OWES_NS + 1, PART_OF_LINE)]
)
def test_pieces_have_a_part_of_the_time_where_others_keep_the_loop_for_long(owed_ns: int, part: int) -> None:
    world = World()
    clients = [Client(world, SHORT_NS) for _ in range(40)]
    others_ns = 5 * part * SHORT_NS
    for client in clients:
        world.line.join(client.serve_piece, owed_ns)
    counts = []
    for _ in range(4):
        world.time_ns += others_ns
        world.turn()
        counts.append(sum(len(client.served_ns) for client in clients))
    assert counts == [6, 12, 18, 24], "five for the time, and the one that ends it"
    world.finish()
    assert sum(len(client.served_ns) for client in clients) == len(clients)


def test_a_failed_piece_takes_no_turn_of_others() -> None:
    world = World()
    client = Client(world, PIECE_NS)

    def failing() -> None:
        raise ValueError("a mistake of ours")

    world.line.join(failing)
    world.line.join(client.serve_piece)
    try:
        world.turn()
    except ValueError:
        world.turn()
    assert client.served_ns


def test_work_of_the_node_itself_takes_every_other_turn() -> None:
    world = World()
    done: list[str] = []

    def node() -> None:
        done.append("node")
        world.time_ns += PIECE_NS
        if done.count("node") < 3:
            world.line.beside(node)

    def client() -> None:
        done.append("client")
        world.time_ns += PIECE_NS

    world.line.beside(node)
    for _ in range(4):
        world.line.join(client)
    for count in range(1, 8):
        assert len(world.soon) == 1
        assert world.turn()
        assert len(done) == count, "a turn does one piece, no matter for which client"
    assert done == ["client", "node", "client", "node", "client", "node", "client"]
    assert not world.turn()
    world.line.beside(node)
    assert world.turn(), "where nobody waits in the line the node does not either"
    assert done[-1] == "node"


def test_failed_work_of_the_node_itself_stops_no_connection() -> None:
    world = World()
    client = Client(world, PIECE_NS)

    def failing() -> None:
        raise ValueError("a mistake of ours")

    world.line.beside(failing)
    with pytest.raises(ValueError, match="ours"):
        world.turn()
    world.line.beside(failing)
    world.line.join(client.serve_piece)
    world.turn()
    with pytest.raises(ValueError, match="ours"):
        world.turn()
    assert client.served_ns


def test_pieces_are_brief_while_somebody_is_served_between_them() -> None:
    found = [0]
    world = World()
    line = Line(world, lambda: found[0], lambda: 0, lambda: world.time_ns)  # type: ignore[arg-type]
    assert line.slice_ns() == SLICE_NS
    for _ in range(3):
        found[0] += 1
        assert line.slice_ns() == BRIEF_SLICE_NS
        world.time_ns += NOTICED_NS - 1
        assert line.slice_ns() == BRIEF_SLICE_NS
    world.time_ns += 1
    assert line.slice_ns() == SLICE_NS


class Moments:
    """A line that gives moments, in a loop whose turns take a microsecond each, and how often others were served."""

    def __init__(self) -> None:
        self.world = World()
        self.events = 0
        self.served_ns = -SECOND_NS
        """The time when somebody was last served at once."""
        self.line = Line(
            self.world,  # type: ignore[arg-type]
            lambda: self.events,
            lambda: self.served_ns,
            lambda: self.world.time_ns,
            gives_moments=True,
        )
        self.done_ns: list[int] = []

    def served(self) -> None:
        self.events += 1
        self.served_ns = self.world.time_ns

    def do(self) -> None:
        self.done_ns.append(self.world.time_ns)

    def pass_time(self, ns: int, serve_every_ns: int = 0) -> None:
        for at_ns in range(0, ns, 1000):
            if serve_every_ns and at_ns % serve_every_ns == 0:
                self.served()
            self.world.turn()
            self.world.time_ns += 1000


@pytest.mark.parametrize("is_own", [False, True])
def test_a_served_connection_may_ask_again_shortly_before_the_next_long_piece(is_own: bool) -> None:
    moments = Moments()
    moments.pass_time(SECOND_NS // 100)
    moments.served()
    (moments.line.beside if is_own else moments.line.join)(moments.do)
    began_ns = moments.world.time_ns
    moments.pass_time(2 * MOMENT_NS)
    (done_ns,) = moments.done_ns
    assert done_ns - began_ns == MOMENT_NS
    moments.line.join(moments.do)
    moments.pass_time(2000)
    assert len(moments.done_ns) == 2, "nobody was served since"


def test_pieces_wait_for_so_many_moments_and_no_more() -> None:
    moments = Moments()
    for _ in range(20):
        moments.line.join(moments.do)
    moments.world.time_ns += SECOND_NS
    moments.pass_time(SECOND_NS // 10, serve_every_ns=MOMENT_NS // 3)
    assert len(moments.done_ns) == 20
    waits_ns = [later - before for before, later in pairwise(moments.done_ns)]
    assert max(waits_ns) <= MOST_MOMENTS_NS + 2 * MOMENT_NS


def test_a_moment_begins_when_somebody_was_served_not_when_the_line_begins() -> None:
    moments = Moments()
    moments.served()
    moments.pass_time(MOMENT_NS - 10_000)
    moments.line.join(moments.do)
    began_ns = moments.world.time_ns
    moments.pass_time(MOMENT_NS)
    assert moments.done_ns == [began_ns + 10_000]


def test_work_that_the_node_starts_waits_for_its_turn() -> None:
    moments = Moments()
    assert moments.line.beside_ns() == SLICE_NS
    moments.served()
    assert moments.line.beside_ns() == 0
    allowed_ns: list[int] = []
    moments.line.beside(lambda: allowed_ns.append(moments.line.beside_ns()))
    moments.pass_time(2 * MOMENT_NS, serve_every_ns=MOMENT_NS)
    moments.pass_time(2 * MOMENT_NS)
    assert allowed_ns == [BRIEF_SLICE_NS]
    assert moments.line.beside_ns() == BRIEF_SLICE_NS


@given(st.lists(st.tuples(st.integers(0, SECOND_NS), st.integers(LONG_NS, SECOND_NS)), max_size=100))
def test_the_account_is_bounded_on_both_sides(charges: list[tuple[int, int]]) -> None:
    account, now_ns = Account(0), 0
    for passed_ns, took_ns in charges:
        now_ns += passed_ns
        account.charge(now_ns, took_ns)
        assert -OVERDRAWN_NS <= account.left_ns(now_ns) <= SAVED_NS
    assert account.left_ns(now_ns + PAUSE_NS + SAVED_NS + OVERDRAWN_NS) == SAVED_NS, "a pause fills it"


def test_an_administrators_requests_are_served_as_they_come() -> None:
    world = World()
    client = Client(world, 300_000_000)
    for number in range(1, 30):
        client.asks_again = False
        world.line.join_long(client)
        world.turn()
        assert len(client.served_ns) == number
        world.pass_time(SECOND_NS)


def used_up(world: World) -> None:
    world.line.charge(SAVED_NS)


def test_a_flood_gets_its_share_of_the_time_and_no_more() -> None:
    world = World()
    used_up(world)
    clients = [Client(world, 20_000_000) for _ in range(50)]
    for client in clients:
        world.line.join_long(client)
    world.pass_time(60 * SECOND_NS)
    served_ns = sum(len(client.served_ns) for client in clients) * 20_000_000
    assert abs(served_ns - 60 * SECOND_NS * SHARE) <= 2 * 20_000_000


def test_slightly_too_long_pieces_are_rare() -> None:
    world = World()
    used_up(world)
    clients = [Client(world, LONG_NS + 1) for _ in range(50)]
    for client in clients:
        world.line.join_long(client)
    world.pass_time(60 * SECOND_NS)
    served = sum(len(client.served_ns) for client in clients)
    assert served <= 60 * SECOND_NS * SHARE / LEAST_CHARGE_NS + 2


def test_the_longest_waiting_connection_is_next() -> None:
    world = World()
    used_up(world)
    clients = [Client(world, 10_000_000) for _ in range(3)]
    for client in clients:
        world.line.join_long(client)
    world.pass_time(60 * SECOND_NS)
    assert sorted(clients, key=lambda client: client.served_ns[0]) == clients


def test_short_pieces_go_on_while_long_ones_wait_for_the_account() -> None:
    world = World()
    world.line.charge(SAVED_NS)
    long, short = Client(world, 10_000_000), Client(world, PIECE_NS)
    world.line.join_long(long)
    world.line.join(short.serve_piece)
    world.turn()
    assert (len(long.served_ns), len(short.served_ns)) == (0, 1)


def test_a_connection_alone_waits_only_briefly() -> None:
    world = World(busy=False)
    client = Client(world, 500_000_000)
    client.serve_piece()
    world.pass_time(20 * SECOND_NS)
    gaps_ns = [
        later - earlier - client.takes_ns
        for earlier, later in zip(client.served_ns, client.served_ns[1:], strict=False)
    ]
    assert len(gaps_ns) > 20
    assert max(gaps_ns) <= (LOOK_MS + 1) * 1_000_000
    assert QUIET_EVENTS > 0


def test_a_closed_connection_takes_no_turn() -> None:
    world = World()
    used_up(world)
    gone, patient = Client(world, 10_000_000), Client(world, 10_000_000)
    world.line.join_long(gone)
    world.line.join_long(patient)
    gone.closed = True
    world.pass_time(10 * SECOND_NS)
    assert not gone.served_ns
    assert patient.served_ns


def test_a_newcomer_is_served_in_the_line_until_it_has_been_cheap() -> None:
    client = Debtor(World().line)
    pieces = 0
    while client.owed_ns:
        client.settle(PIECE_NS // 10)
        pieces += 1
    assert pieces == NEWCOMER_OWES_NS // CREDIT_NS


@given(st.lists(st.integers(0, 10 * PIECE_NS)))
def test_an_expensive_connection_is_served_at_once_after_some_cheap_requests(pieces_ns: list[int]) -> None:
    client = Debtor(World().line)
    for took_ns in pieces_ns:
        client.settle(took_ns)
        assert (client.owed_ns > 0) >= (took_ns > PIECE_NS)
    for _ in range(MOST_OWED_NS // CREDIT_NS):
        client.settle(0)
    assert client.owed_ns == 0


def test_only_what_is_long_of_its_kind_is_charged() -> None:
    world = World()
    client = Debtor(world.line)
    client.settle(LONG_NS)
    assert not client.is_long
    client.settle(LONG_NS + 1)
    assert client.is_long
    producer = Debtor(world.line)
    producer.slow_kind = Trait(is_whole=True)
    producer.settle(LONG_WHOLE_NS)
    assert not producer.is_long
    producer.settle(LONG_WHOLE_NS + 1)
    assert producer.is_long
