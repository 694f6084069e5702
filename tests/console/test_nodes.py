"""The nodes of the cluster's page: since when one is away, what to do about it, and the link to its console."""

from types import SimpleNamespace
from typing import Any

import pytest
from test_rows_of_pages import broker, totals_of

from kpybroker.machines.console.cluster import health_of
from kpybroker.machines.console.nodes import Away, ConsoleLink, NodeFacts, NodeView, host_of, link_of, nodes_of

BROKERS = {1: broker(1), 2: broker(2, fenced=True), 3: broker(3, stopping=True)}
LOOPBACK = "http://127.0.0.1:9405/"


def views(brokers: dict[int, Any] = BROKERS, controllers: tuple[int, ...] = (1,), **known: Any) -> dict[int, NodeView]:
    image: Any = SimpleNamespace(
        brokers=brokers, controllers={each: SimpleNamespace(listeners={}) for each in controllers}
    )
    facts = {"here": 1, "quorum_leader": 1, "leaders": {}, "replicas": {}, "waiting": {}, "away": {}, "consoles": {}}
    return {each.id: each for each in nodes_of(image, NodeFacts(**{**facts, **known}))}


def test_a_node_that_is_well_needs_no_advice() -> None:
    found = views()[1]
    assert (found.state, found.away_s, found.advice, found.console, found.console_note) == ("alive", None, "", None, "")


def test_a_broker_that_is_away_says_since_when_and_what_to_do() -> None:
    away = {2: Away(180.0, is_older=False)}
    found = views(away=away, replicas={2: 4})[2]
    assert (found.state, found.away_s, found.is_away_longer) == ("fenced", 180.0, False)
    assert found.advice == (
        "Start it again; if it will not come back, move its 4 replicas to other brokers and unregister it."
    )
    assert views(away=away, replicas={2: 4}, waiting={2: 1})[2].advice == (
        "Start it again: 1 partition has no leader until it is back."
    )
    assert views(away=away)[2].advice == (
        "Start it again; if it will not come back, unregister it: it has no replicas."
    )
    assert views(away={2: Away(5.0, is_older=True)})[2].is_away_longer


def test_a_broker_that_never_served_is_not_called_away() -> None:
    found = views()[2]
    assert (found.away_s, found.advice) == (None, "It has registered and serves nobody yet: wait, or read its log.")
    assert found.console_note == "unknown while it is away"
    assert views()[3].advice == "It hands its leaderships over and stops: wait."


def test_a_controller_that_does_not_fetch_is_silent() -> None:
    found = views(controllers=(1, 4, 5), away={4: Away(30.0, is_older=False)})
    assert (found[4].state, found[4].away_s, found[5].state) == ("silent", 30.0, "registered")
    assert found[4].advice == "Start it again: the quorum needs 2 of its 3 controllers."
    shown = health_of(tuple(found.values())[3:], totals_of(), (), 1, None)
    assert (shown.state, shown.line) == ("warning", "controller 4 does not follow the quorum's leader")
    assert views(away={1: Away(30.0, is_older=False)})[1].state == "alive", "it serves clients"


@pytest.mark.parametrize(
    ("url", "local", "same", "link"),
    [
        (LOOPBACK, True, True, ConsoleLink(LOOPBACK, "")),
        (LOOPBACK, False, True, ConsoleLink(None, f"on its own machine alone: {LOOPBACK}")),
        (LOOPBACK, True, False, ConsoleLink(None, f"on its own machine alone: {LOOPBACK}")),
        ("http://[::1]:9405/", True, False, ConsoleLink(None, "on its own machine alone: http://[::1]:9405/")),
        ("http://localhost/", True, False, ConsoleLink(None, "on its own machine alone: http://localhost/")),
        ("https://kafka-2:9404/", False, False, ConsoleLink("https://kafka-2:9404/", "")),
        ("http://10.0.0.2:9404/", False, False, ConsoleLink("http://10.0.0.2:9404/", "")),
        ("", True, True, ConsoleLink(None, "it has none")),
        ("javascript:alert(1)", True, True, ConsoleLink(None, "it names no address")),
        ("http://" + "x" * 500, True, True, ConsoleLink(None, "it names no address")),
    ],
)
def test_a_link_leads_only_where_the_browser_gets_to(url: str, local: bool, same: bool, link: ConsoleLink) -> None:
    assert link_of(url, is_configured=False, is_viewer_local=local, is_same_machine=same) == link


def test_an_address_that_an_operator_configured_is_believed() -> None:
    found = link_of(LOOPBACK, is_configured=True, is_viewer_local=False, is_same_machine=False)
    assert found == ConsoleLink(LOOPBACK, "")
    assert host_of("http://localhost:9405/console/") == "localhost:9405"
