"""The places of the second port's connections: which one gives way to a new one, and which ones stay."""

from kpybroker.runtime.http.places import GRACE_S, Phase, Place, Places

LATER_S = 10.0


def full(*phases: Phase) -> tuple[Places, list[Place]]:
    """Places that are all taken, by connections in these phases, each a little later than the one before."""
    places = Places(len(phases))
    taken = [places.take(f"10.0.0.{number}", number / 100) for number in range(len(phases))]
    for number, (place, phase) in enumerate(zip(taken, phases, strict=True)):
        place.enter(phase, number / 100)
    return places, taken


def gone(places: Places, taken: list[Place], now_s: float = LATER_S) -> list[Place]:
    """The connections that give way to a new one."""
    room = places.make_room(now_s)
    left = [place for place in taken if place not in places._taken]
    assert room == bool(left)
    return left


def test_no_connection_is_closed_while_there_is_room() -> None:
    places = Places(2)
    places.take("10.0.0.1", 0.0)
    assert places.make_room(LATER_S)
    assert len(places._taken) == 1


def test_the_connection_that_has_waited_for_longest_gives_way() -> None:
    places, taken = full(Phase.READING, Phase.READING, Phase.READING)
    assert gone(places, taken) == [taken[0]]


def test_a_request_that_has_not_come_gives_way_before_an_answer_that_is_not_taken() -> None:
    places, taken = full(Phase.REFUSED, Phase.SENDING, Phase.READING)
    assert gone(places, taken) == [taken[2]]
    places, taken = full(Phase.REFUSED, Phase.SENDING)
    assert gone(places, taken) == [taken[1]]
    places, taken = full(Phase.ANSWERING, Phase.REFUSED)
    assert gone(places, taken) == [taken[1]]


def test_a_request_that_is_being_answered_keeps_its_place() -> None:
    places, taken = full(Phase.ANSWERING, Phase.ANSWERING)
    assert gone(places, taken) == []


def test_a_connection_has_a_moment_for_each_of_its_steps() -> None:
    places, taken = full(Phase.READING, Phase.READING)
    for place in taken:
        place.enter(Phase.READING, LATER_S)
    assert gone(places, taken, LATER_S + GRACE_S / 2) == []
    assert gone(places, taken, LATER_S + GRACE_S) == [taken[0]]


def test_the_host_with_the_most_slow_connections_loses_one_first() -> None:
    places = Places(4)
    alone = places.take("10.0.0.1", 0.0)
    many = [places.take("10.0.0.2", 1.0) for _ in range(3)]
    assert gone(places, [alone, *many]) == [many[0]]
