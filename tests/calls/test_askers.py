"""Clients that ask for metadata often: they are counted within bounds, whatever names they give themselves."""

from kpybroker.runtime.calls.askers import LONGEST_ID_CHARS, MOST_ASKERS, Askers


def test_a_client_has_one_counter_over_all_its_connections() -> None:
    askers = Askers()
    assert askers.of("a", "me") is askers.of("a", "me")
    assert askers.of("a", "me") is not askers.of("b", "me")
    assert askers.of("a", None) is askers.of("a", "")
    askers.of("a", "x" * 10_000)
    assert ("a", "x" * LONGEST_ID_CHARS) in askers.known


def test_a_flood_of_client_names_does_not_hide_the_busiest_clients() -> None:
    askers = Askers()
    busy = askers.of("a", "busy")
    busy.requests = 1_000
    for number in range(10 * MOST_ASKERS):
        askers.of("a", str(number)).requests += 1
    assert len(askers.known) == MOST_ASKERS
    assert askers.of("a", "busy") is busy
