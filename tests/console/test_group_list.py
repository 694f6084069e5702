"""The list of groups: it is kept for a moment, sorts, and knows the groups that other nodes coordinate."""

import asyncio
from collections.abc import Collection, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from console_node import ConsoleNode, console_node, no_account
from test_group_progress import consumer, first, topic_of

from kpybroker.machines.console.groups import MemberRow
from kpybroker.monitoring.console import overviews
from kpybroker.monitoring.console.answers import groups, overview
from kpybroker.monitoring.console.answers.groups_elsewhere import GroupElsewhere, GroupsOfNode, groups_of_node, names_in
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.calls.principal import ANONYMOUS, USER, Principal
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_groups import ListedGroup
from kpywire.messages.offset_fetch import OffsetFetchRequest
from kpywire.record import Record
from support.share_group_requests import sharing
from support.waiting import eventually

VIEWER = Viewer(ANONYMOUS, "127.0.0.1", None)


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as made:
        made.create("flights")
        made.produce("flights", [Record(value=b"v", timestamp=1_000)] * 9)
        made.commit("behind", "flights", 2)
        made.commit("done", "flights", 9)
        yield made


def rows(node: ConsoleNode, **query: str) -> dict[str, Any]:
    return {each["id"]: each for each in node.get("/api/groups", **query).json["groups"]}


def elsewhere(node: ConsoleNode) -> GroupsOfNode:
    """The groups of the node as another one would ask for them."""
    broker = node.node.broker
    assert broker is not None
    parts: Any = SimpleNamespace(broker=broker, elsewhere=Elsewhere(broker, no_account))
    found: GroupsOfNode = node.run(groups_of_node(parts, VIEWER, 1))
    return found


def test_the_worst_groups_come_first_with_their_lag_in_records_and_in_time(node: ConsoleNode) -> None:
    found = rows(node)
    assert next(iter(found)) == "behind"
    assert (found["behind"]["standing"], found["behind"]["lag"]) == ("stuck", 7)
    assert found["behind"]["lag_s"] > 1_000_000, "the record is of 1970"
    assert (found["done"]["standing"], found["done"]["verdict"]) == ("fine", "It has no member.")
    assert (found["done"]["lag"], found["done"]["lag_s"]) == (0, 0.0)


@pytest.mark.parametrize("sort", ["-time", "time", "group", "-group", "nonsense"])
def test_the_list_sorts_by_the_column_that_is_asked_for(node: ConsoleNode, sort: str) -> None:
    ids = [each for each in rows(node, sort=sort) if each in ("behind", "done")]
    assert ids == (["done", "behind"] if sort in ("time", "-group") else ["behind", "done"])


def test_what_costs_time_is_kept_for_a_moment_and_a_change_is_seen_at_once(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overviews, "FRESH", 1e9)
    monkeypatch.setattr(overviews, "MOST_FRESH_MS", 3_600_000)
    node.commit("kept", "flights", 1)
    eventually(lambda: "kept" in rows(node), "the list is made again")
    node.commit("unseen", "flights", 1)
    assert "unseen" not in rows(node)
    assert node.post("/group/reset", id="kept", plan="flights,0,4").status == 200
    found = rows(node)
    assert (found["kept"]["lag"], "unseen" in found) == (5, True)
    assert node.post("/group/delete", id="kept", typed="kept").status == 200
    assert "kept" not in rows(node)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_and_positions_of_another_nodes_group_are_asked_for(node: ConsoleNode, protocol: str) -> None:
    topic = topic_of(node, f"far-{protocol}", 3)
    with consumer(node, f"away-{protocol}", f"client-{protocol}", protocol) as client:
        client.subscribe([topic])
        client.commit(message=first(client), asynchronous=False)
        found = elsewhere(node)
        assert found.absence == ""
        group = found.groups[f"away-{protocol}"]
        assert group.positions == {(topic, 0): 1}
        assert [(each.client_id, each.assigned) for each in group.members] == [(f"client-{protocol}", (f"{topic}-0",))]
        assert {f"away-{protocol}", f"client-{protocol}"} <= names_in(found.groups.values())


def test_a_share_group_of_another_node_has_the_records_that_are_left(node: ConsoleNode) -> None:
    with node.client as client:
        beat = sharing("far-sharers", "m", 0, ["flights"])
        client.call(FindCoordinatorRequest(key="far-sharers", key_type=0), 3)
        eventually(lambda: client.call(beat, 1).error_code == 0, "a member")
        eventually(lambda: client.call(beat, 1).assignment.topic_partitions, "its partitions")
        group = elsewhere(node).groups["far-sharers"]
        assert [each.assigned for each in group.members] == [("flights-0",)]
        client.call(sharing("far-sharers", "m", -1), 1)
    assert node.post("/group/reset", id="far-sharers", plan="flights,0,4").status == 200
    group = elsewhere(node).groups["far-sharers"]
    assert (group.positions, group.left) == ({("flights", 0): 4}, {("flights", 0): 5})
    page, listed = node.get("/api/group", id="far-sharers").json, rows(node)["far-sharers"]
    for each in (page, listed):
        assert (each["lag_s"] > 1_000_000, each["untimed"]) == (True, 0), "the record is of 1970"
    assert page["positions"] == []
    (row,) = node.get("/api/group/reset", id="far-sharers").json["rows"]
    assert (row["committed"], row["offset"]) == (4, 0)
    here = rows(node)["far-sharers"]
    assert (here["type"], here["standing"], here["lag"], here["topics"]) == ("share", "stuck", 5, ["flights"])
    assert here["verdict"] == "It has no member: nobody reads the 5 records that are left."


def test_a_row_of_another_nodes_group_has_its_lag_and_says_which_node_knows_more(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = elsewhere(node)
    only = {name: each._replace(node=2) for name, each in found.groups.items() if name in ("behind", "done")}

    async def away(*_: object) -> list[GroupsOfNode]:
        renamed = {}
        for name, each in only.items():
            each.listed.group_id = f"{name}-far"
            renamed[f"{name}-far"] = each
        return [GroupsOfNode(renamed), GroupsOfNode({}, "node 3: it does not answer")]

    monkeypatch.setattr(overview, "groups_elsewhere", away)
    monkeypatch.setattr(overviews, "FRESH", 0)
    eventually(lambda: "behind-far" in rows(node), "the list is made again")
    answer = node.get("/api/groups").json
    behind, done = ({each["id"]: each for each in answer["groups"]}[name] for name in ("behind-far", "done-far"))
    assert (behind["node"], behind["is_here"], behind["lag"], behind["members"]) == (2, False, 7, 0)
    assert behind["verdict"] == "It has no member: nobody reads the 7 records that are left."
    assert (done["lag"], done["standing"]) == (0, "fine")
    assert answer["unreachable"] == ["node 3: it does not answer"]
    assert behind["console"] is None
    page = node.get("/groups").text
    assert "2 <small>knows more</small>" in page

    async def consoles(_node: object, _viewer: object, others: Collection[int]) -> dict[int, str]:
        return dict.fromkeys(others, "http://two.example:9404/")

    monkeypatch.setattr(groups, "consoles_of", consoles)
    assert '<a href="http://two.example:9404/group?id=behind-far" rel="noreferrer"' in node.get("/groups").text
    assert '<a href="/group?id=behind-far" title="As node 2 describes it">' in page


def test_a_plan_of_more_positions_than_a_page_shows_is_refused_before_it_is_read(node: ConsoleNode) -> None:
    answer = node.post("/group/reset", id="done", plan="flights,0,4\n" * 2_001)
    assert (answer.status, answer.json["error"].partition(":")[0]) == (400, "plan has more than 2\u202f000 lines")
    assert node.post("/group/reset", id="done", plan="x" * 200_000).status == 400
    assert rows(node)["done"]["lag"] == 0


def test_an_assignment_names_no_topic_that_the_viewer_may_not_see(node: ConsoleNode) -> None:
    listed = ListedGroup(group_id="far", group_state="Stable", group_type="classic")
    member = MemberRow("m", None, "client", "127.0.0.1", ("flights-0", "secret-0"), "")
    group = GroupElsewhere(listed, 2, [member], {}, {}, is_asked=True)
    parts: Any = SimpleNamespace(broker=node.node.broker)
    found = node.run(overview.positions_elsewhere(parts, group, {}, "flights".__eq__))
    assert [(each.topic, each.member) for each in found] == [("flights", "client")]


def test_an_answer_about_a_group_that_was_not_asked_for_is_left_alone(
    node: ConsoleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Elsewhere.ask

    async def of_another(self: Elsewhere, viewer: Viewer, other: int, request: Any) -> Any:
        answer = await ask(self, viewer, other, request)
        if isinstance(request, OffsetFetchRequest):
            answer.groups[0].group_id = "unknown"
        return answer

    monkeypatch.setattr(Elsewhere, "ask", of_another)
    assert {"behind", "done"} <= elsewhere(node).groups.keys()


def test_viewers_whose_names_look_alike_have_lists_of_their_own() -> None:
    keys: list[str] = []

    async def of(key: str, _: object) -> None:
        keys.append(key)

    parts: Any = SimpleNamespace(overviews=SimpleNamespace(of=of))
    authorizer: Any = object()
    for name in ("ann\n", "ann<U+000A>"):
        asyncio.run(overview.overview(parts, Viewer(Principal(USER, name), "127.0.0.1", authorizer)))
    assert len(set(keys)) == 2
