"""Long work that the next connection of an address is charged with, and the turns of clients at one worker."""

from collections import Counter
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.runtime.fairness.debts import Debts
from kpybroker.runtime.fairness.parties import Parties
from kpybroker.runtime.fairness.times import DEBT_LASTS_MS, MOST_ADDRESSES, MOST_DEBTS, MOST_PARTIES


def test_a_client_that_connects_again_waits_again_and_others_do_not() -> None:
    debts = Debts()
    debts.leave("10.0.0.1", 0)
    assert not debts.take("10.0.0.2", 1)
    assert debts.take("10.0.0.1", 1)
    assert not debts.take("10.0.0.1", 1), "one connection is the heir, not all"


def test_a_debt_of_an_address_expires() -> None:
    debts = Debts()
    for address in ("10.0.0.1", "10.0.0.2"):
        debts.leave(address, 0)
    assert debts.take("10.0.0.1", DEBT_LASTS_MS)
    assert not debts.take("10.0.0.2", DEBT_LASTS_MS + 1)


def test_debts_are_bounded_in_number() -> None:
    debts = Debts()
    for _ in range(MOST_DEBTS + 10):
        debts.leave("10.0.0.1", 0)
    assert [debts.take("10.0.0.1", 0) for _ in range(MOST_DEBTS + 10)] == [True] * MOST_DEBTS + [False] * 10
    for number in range(MOST_ADDRESSES + 1):
        debts.leave(str(number), 0)
    assert not debts.take("0", 0)
    assert debts.take("1", 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=200))
def test_each_debt_of_an_address_is_charged_to_one_later_connection(steps: list[tuple[str, bool]]) -> None:
    debts = Debts()
    left = Counter[str]()
    for address, works in steps:
        if works:
            debts.leave(address, 0)
            left[address] = min(left[address] + 1, MOST_DEBTS)
        else:
            assert debts.take(address, 0) == (left[address] > 0)
            left[address] = max(left[address] - 1, 0)


def served(parties: Parties[str], took_ns: dict[str, int], until_ns: int) -> dict[str, int]:
    """Serve clients that always want something for a time: how long each one had the worker."""
    used = dict.fromkeys(took_ns, 0)
    while sum(used.values()) < until_ns:
        taken = parties.take()
        assert taken is not None
        party = taken[0]
        used[party] += took_ns[party]
        parties.charge(party, took_ns[party])
        parties.put(party, "more")
    return used


def test_clients_that_always_want_something_get_the_worker_for_the_same_time() -> None:
    parties: Parties[str] = Parties()
    took_ns = {"cheap": 1, "expensive": 100}
    for party in took_ns:
        for _ in range(5):
            parties.put(party, "first")
    used = served(parties, took_ns, 10_000)
    assert abs(used["cheap"] - used["expensive"]) <= 100


def test_a_client_with_many_connections_waits_behind_one_with_few() -> None:
    parties: Parties[int] = Parties()
    for number in range(1000):
        parties.put("many", number)
    assert parties.take() == ("many", 0)
    parties.charge("many", 1000)
    parties.put("few", 7)
    assert parties.take() == ("few", 7)
    assert parties.take() == ("many", 1)


def test_a_client_that_wanted_nothing_for_long_does_not_keep_the_others_waiting() -> None:
    parties: Parties[str] = Parties()
    for _ in range(1000):
        parties.put("early", "x")
        parties.take()
        parties.charge("early", 10)
    for _ in range(3):
        parties.put("early", "x")
        parties.put("late", "x")
    order = []
    for _ in range(6):
        party, _ = parties.take() or ("", "")
        parties.charge(party, 10)
        order.append(party)
    assert order.index("late") <= 1
    assert order.index("early") <= 2


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 100)), max_size=300))
def test_everything_that_waits_is_taken_once_and_in_the_order_of_its_client(
    steps: list[tuple[int, bool, int]],
) -> None:
    parties: Parties[int] = Parties()
    numbers = count()
    waiting: dict[str, list[int]] = {}
    for client, puts, took_ns in steps:
        if puts:
            number = next(numbers)
            parties.put(str(client), number)
            waiting.setdefault(str(client), []).append(number)
        elif any(waiting.values()):
            party, number = parties.take() or ("", -1)
            assert waiting[party].pop(0) == number
            parties.charge(party, took_ns)
        else:
            assert parties.take() is None


def test_few_clients_are_remembered() -> None:
    parties: Parties[str] = Parties()
    for number in range(3 * MOST_PARTIES):
        parties.put(str(number), "x")
        parties.take()
        if number % 2:  # the others have given up before their turn
            parties.charge(str(number), 1)
    assert len(parties._used_ns) <= MOST_PARTIES + 1
