"""The search of everything: the exact name first, a bounded number, and nothing that its viewer may not see."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from console_node import ConsoleNode, console_node
from test_access import ask, secured  # noqa: F401 - the latter is a fixture
from test_transactions_page import open_transaction

from kpybroker.machines.console.finding import MOST_HITS, Closest, Hit, Hits, find_page
from support.raw_client import RawClient
from support.waiting import eventually


def hits_of(kind: str, search: str, *names: str) -> Hits:
    found = Closest(kind, "/", search)
    for name in names:
        found.add(Hit(name, "/", ""))
    return found.hits()


def test_the_closest_names_come_first() -> None:
    found = hits_of("Topics", "pay", "a-pay", "payments", "PAY", "pay", "pay-b")
    assert [each.name for each in found.hits] == ["pay", "PAY", "pay-b", "payments", "a-pay"]


def test_of_many_names_the_closest_are_kept_and_all_are_counted() -> None:
    names = [f"a-pay-{number:03}" for number in range(99, -1, -1)]
    found = hits_of("Topics", "pay", *names, "pay")
    assert [each.name for each in found.hits] == ["pay", *sorted(names)[: MOST_HITS - 1]]
    assert found.total == 101


def test_a_kind_with_the_exact_name_comes_first_and_empty_ones_not_at_all() -> None:
    kinds = hits_of("Topics", "pay", "payments"), hits_of("Groups", "pay", "pay"), hits_of("Clients", "pay")
    assert [each.kind for each in find_page("pay", kinds, ()).kinds] == ["Groups", "Topics"]


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        for name in ("pay", "payments", "other"):
            made.create(name)
        made.commit("pay-readers", "pay", 0)
        made.commit("a b&c", "pay", 0)
        producer = open_transaction(made, "pay-daily", "pay")
        with RawClient(made.node.ports["PLAINTEXT"], client_id="pay-client") as client:
            made.join(client, "joined")
            yield made
        del producer


def test_a_text_finds_names_of_every_kind(node: ConsoleNode) -> None:
    found = node.get("/api/find", q="PAY").json
    assert {each["kind"]: [hit["name"] for hit in each["hits"]] for each in found["kinds"]} == {
        "Topics": ["pay", "payments"],
        "Groups": ["pay-readers"],
        "Transactional ids": ["pay-daily"],
        "Clients": ["pay-client"],
    }
    assert found["missing"] == []


def test_every_hit_and_every_list_leads_to_a_page_that_names_it(node: ConsoleNode) -> None:
    for search in ("pay", "a b&c", "retention"):
        for kind in node.get("/api/find", q=search).json["kinds"]:
            for hit in kind["hits"]:
                page = node.get(hit["see"])
                assert (page.status, hit["name"].replace("&", "&amp;") in page.text) == (200, True), hit
            assert kind["hits"][0]["name"].replace("&", "&amp;") in node.get(kind["see"]).text, kind["see"]


def test_many_hits_are_counted_and_the_first_are_listed(node: ConsoleNode) -> None:
    (configs,) = [each for each in node.get("/api/find", q="log.").json["kinds"] if each["kind"] == "Configs"]
    assert configs["total"] > MOST_HITS == len(configs["hits"])
    assert f">All {configs['total']}</a>" in node.get("/find", q="log.").text


def test_a_search_for_nothing_or_for_markup_is_harmless(node: ConsoleNode) -> None:
    assert node.get("/api/find", q=" ").json == {"search": "", "kinds": [], "missing": []}
    assert "A part of a name finds" in node.get("/find").text
    text = node.get("/find", q='<b>"\u202e').text
    assert "<b>" not in text.partition("<main")[2]
    assert "Nothing that you may see" in text


def test_a_viewer_finds_only_what_it_may_see(secured: ConsoleNode) -> None:  # noqa: F811
    producer = open_transaction(secured, "closed-id", "closed")
    eventually(lambda: "closed-id" in ask(secured, "root", "/api/find?q=closed").text, "root finds everything")
    every = {hit["name"] for each in ask(secured, "root", "/api/find?q=clos").json["kinds"] for hit in each["hits"]}
    assert every >= {"closed", "of-closed", "closed-id"}
    little = ask(secured, "ann", "/api/find?q=clos").json
    assert little["kinds"] == []
    assert [line.partition(" ")[0] for line in little["missing"]] == ["Clients", "Configs"]
    found = ask(secured, "ann", f"/api/find?q={quote('open')}").json["kinds"]
    assert {each["kind"]: [hit["name"] for hit in each["hits"]] for each in found} == {
        "Topics": ["open"],
        "Groups": ["of-open"],
    }
    producer.abort_transaction(30)


def test_groups_of_a_node_that_does_not_answer_are_named_as_missing(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = node.node.broker
    assert broker is not None
    monkeypatch.setattr(broker, "alive_brokers", frozenset({1, 7}))
    found = node.get("/api/find", q="pay").json
    assert "Groups" in [each["kind"] for each in found["kinds"]]
    assert [line[:48] for line in found["missing"]] == ["The groups of node 7 were not searched: it has n"]
