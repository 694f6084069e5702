"""The page of mirrors: how far topics are, why a partition is behind, which groups are carried over."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from console_node import ConsoleNode, console_node
from mirroring_node import MirroringNode, furnished, mirroring_node
from shown_tables import tables_of
from steps import MOST, longest_of
from test_browser import violations

from kpybroker.client.mirror_requests import SourceState
from kpybroker.hosts.mirror.running_mirror import RunningMirror
from kpybroker.hosts.replicas import upkeep
from kpybroker.machines.authorization.resources import CLUSTER_NAME
from kpybroker.machines.console.listing import PER_PAGE
from kpybroker.machines.console.mirrors import (
    AWAY,
    FAILED,
    MirroredPartitionRow,
    MirrorRow,
    TopicTally,
    distance,
    mirror_row,
)
from kpybroker.monitoring.console import source_looks
from kpybroker.monitoring.console.source_looks import SourceLooks
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire.record import Record
from support.browser import Browser, axe
from support.waiting import eventually

WIDE = 3_000
PAGE, ADDRESS = "/api/mirrors", "/mirrors"


@pytest.fixture(scope="module")
def mirroring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MirroringNode]:
    with mirroring_node(tmp_path_factory.mktemp("sources")) as made:
        furnished(made)
        yield made


def row(partition: int, lag: int | None, reason: str) -> MirroredPartitionRow:
    return MirroredPartitionRow("dr", "t", partition, 0, lag, lag, reason)


def test_a_topic_has_the_reason_of_the_partition_that_is_furthest_behind() -> None:
    tally = TopicTally("dr", "t", "mirroring")
    for each in (row(0, 0, ""), row(1, 5, "slow"), row(2, 70, "slower"), row(3, 9, "")):
        tally.add(each)
    made = tally.row()
    assert (made.partitions, made.lag, made.unknown, made.behind, made.reason) == (4, 84, 0, 2, "slower")
    tally.add(row(4, None, "away"))
    made = tally.row()
    assert (made.lag, made.unknown, made.behind, made.reason) == (84, 1, 3, "away")
    assert mirror_row("dr", None, "", [made]) == MirrorRow("dr", (), True, "", 1, 5, 84, 1)
    assert mirror_row("other", ("o*",), "gone", [made]) == MirrorRow("other", ("o*",), False, "gone", 0, 0, 0, 0)
    assert sorted([row(0, 9, ""), row(1, None, "x"), row(2, 3, "x")], key=distance)[0].partition == 0


def test_the_page_shows_mirrors_topics_and_groups(mirroring: MirroringNode) -> None:
    found = mirroring.node.get(PAGE).json
    assert found["mirrors"] == [
        {
            "name": "dr",
            "patterns": ["orders*"],
            "is_stopped": False,
            "problem": "",
            "topics": 1,
            "partitions": 2,
            "lag": 0,
            "unknown": 0,
        }
    ]
    assert found["topics"] == [
        {
            "mirror": "dr",
            "topic": "orders",
            "state": "mirroring",
            "partitions": 2,
            "lag": 0,
            "unknown": 0,
            "behind": 0,
            "reason": "",
        }
    ]
    assert found["partitions"] == []
    assert (found["carrier"], found["is_carrier"], found["silent_nodes"]) == (1, True, [])
    assert found["groups"] == [{"mirror": "dr", "group": "shipping", "positions": 1}]
    shown, topics, groups = tables_of(mirroring.node.get(ADDRESS).text)
    assert shown.rows == [["dr", "orders*", "mirroring", "1", "2", "0"]]
    assert topics.rows == [["orders", "dr", "mirroring", "2", "0", ""]]
    assert groups.rows == [["shipping", "dr", "1"]]


def test_the_menu_has_the_page_only_where_a_mirror_is_named(mirroring: MirroringNode) -> None:
    assert 'href="/mirrors"' in mirroring.node.get("/").text
    assert 'href="/mirrors"' not in mirroring.source.get("/").text
    assert mirroring.source.get(PAGE).json["mirrors"] == []
    assert "kpybroker mirror create" in mirroring.source.get(ADDRESS).text


def behind(node: ConsoleNode) -> list[tuple[Any, ...]]:
    """The partitions that are behind, as the page lists them."""
    rows = node.get(PAGE).json["partitions"]
    return [(each["partition"], each["end"], each["source_end"], each["lag"], each["reason"]) for each in rows]


def test_a_partition_that_has_failed_says_so_and_comes_first(
    mirroring: MirroringNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_looks, "FRESH", 0)
    monkeypatch.setattr(RunningMirror, "failed", lambda _: {("orders", 1)})
    assert behind(mirroring.node) == [(1, 10, 10, 0, FAILED)]
    assert FAILED in mirroring.node.get(ADDRESS).text


def test_lags_are_those_between_both_ends(mirroring: MirroringNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_looks, "FRESH", 0)
    read = source_looks.SourceLooks.at

    async def ahead(looks: SourceLooks, mirror: str, ask: Any) -> Any:
        look = await read(looks, mirror, ask)
        assert look.state is not None
        ends = {spot: end + (7 if spot.partition == 0 else 0) for spot, end in look.state.ends.items()}
        return look._replace(state=SourceState(look.state.topics, ends))

    monkeypatch.setattr(SourceLooks, "at", ahead)
    assert behind(mirroring.node) == [(0, 30, 37, 7, "it is being fetched")]
    (topic,) = mirroring.node.get(PAGE).json["topics"]
    assert (topic["lag"], topic["behind"], topic["reason"]) == (7, 1, "it is being fetched")


def test_a_source_that_is_away_is_named_and_lags_are_unknown(
    mirroring: MirroringNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = property(lambda _: "<no route>", lambda *_: None)
    monkeypatch.setattr(RunningMirror, "problem", problem, raising=False)
    (shown,) = mirroring.node.get(PAGE).json["mirrors"]
    assert (shown["problem"], shown["unknown"]) == ("<no route>", 2)
    assert behind(mirroring.node) == [(0, 30, None, None, AWAY), (1, 10, None, None, AWAY)]
    text = mirroring.node.get(ADDRESS).text
    assert "The source of mirror dr cannot be read from this node: &lt;no route&gt;" in text
    assert "its source is away" in text


def test_topics_and_groups_that_a_viewer_may_not_know_are_not_shown(
    mirroring: MirroringNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Viewer, "may", lambda *asked: asked[-1] == CLUSTER_NAME)
    found = mirroring.node.get(PAGE).json
    assert (found["topics"], found["groups"], found["total"], found["mirrors"][0]["topics"]) == ([], [], 0, 0)
    assert "None that you may see." in mirroring.node.get(ADDRESS).text


def test_another_node_than_the_carrier_names_it(mirroring: MirroringNode, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrors = type(mirroring.node.node.broker.mirrors)  # type: ignore[union-attr]
    monkeypatch.setattr(mirrors, "carrier_id", 7)
    found = mirroring.node.get(PAGE).json
    assert (found["carrier"], found["is_carrier"], found["carrier_console"]) == (7, False, None)
    assert "Node 7 carries them over" in mirroring.node.get(ADDRESS).text


def test_a_mirror_that_is_stopped_keeps_its_topics_on_the_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    with mirroring_node(tmp_path_factory.mktemp("stopped")) as made:
        made.source.create("orders")
        made.source.produce("orders", [Record(timestamp=1, value=b"v")])
        made.mirror("orders")
        eventually(lambda: made.has("orders", 1), "the mirror has all", 60)
        made.mirror("")
        eventually(lambda: made.node.get(PAGE).json["mirrors"][0]["is_stopped"], "it is stopped")
        found = made.node.get(PAGE).json
        assert [each["reason"] for each in found["topics"]] == ["the mirror dr is stopped"]
        assert (found["carrier"], found["groups"]) == (None, [])
        assert "no mirror runs" in made.node.get(ADDRESS).text
        assert 'href="/mirrors"' not in made.node.get("/").text


@pytest.mark.slow
def test_thousands_of_mirrored_partitions_do_not_hold_the_loop(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "FLUSH_CHECK_MS", 3_600_000)  # a look at each partition, which is not the console's
    with mirroring_node(tmp_path_factory.mktemp("wide")) as made:
        made.source.create("orders", WIDE)
        made.source.produce("orders", [Record(timestamp=1, value=b"v")])
        made.mirror("orders")
        eventually(lambda: made.has("orders", 1), "the mirror has all", 120)
        (running,) = made.node.node.broker.mirrors  # type: ignore[union-attr]
        eventually(lambda: running.figures().partitions == WIDE, "all partitions are fetched", 120)
        monkeypatch.setattr(SourceLooks, "at", away)
        for address in (ADDRESS, PAGE):
            assert longest_of(made.node, partial(made.node.get, address), 200) <= MOST, address
        assert made.node.get(PAGE).json["partitions_left_out"] == WIDE - PER_PAGE


async def away(*_: Any) -> Any:
    """A source that is away."""
    return source_looks.SILENT


@pytest.mark.slow
def test_a_page_with_rows_is_accessible_and_fits_a_phone(
    mirroring: MirroringNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(source_looks, "FRESH", 0)
    monkeypatch.setattr(RunningMirror, "failed", lambda _: {("orders", 1)})
    with Browser(tmp_path) as browser:
        browser.open(f"http://127.0.0.1:{mirroring.node.node.http_port}{ADDRESS}", theme="light", width=1100)
        assert browser.run("document.querySelectorAll('table').length") == 4
        assert browser.run("document.querySelector('header').offsetHeight") <= 60
        browser.run(axe())
        for width in (1100, 390):
            browser.resize(width, 844)
            assert browser.run("document.documentElement.scrollWidth") <= width
            assert violations(browser, "{}") == []


# Looks at sources


def test_a_source_is_read_once_for_several_pages_and_kept_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_looks, "PATIENCE_S", 60.0)
    reads: list[int] = []
    may_go_on = threading.Event()
    scheduler = ManualScheduler()

    def read() -> SourceState:
        reads.append(1)
        may_go_on.wait(60)
        scheduler.advance(100)
        return SourceState({}, {})

    with console_node() as node:
        looks = SourceLooks(scheduler)

        async def pages() -> list[Any]:
            waiting = [asyncio.ensure_future(looks.at("dr", read)) for _ in range(3)]
            await asyncio.sleep(0)
            may_go_on.set()
            return list(await asyncio.gather(*waiting))

        assert {each.problem for each in node.run(pages())} == {""}
        assert len(reads) == 1
        node.run(looks.at("dr", read))
        assert len(reads) == 1
        scheduler.advance(source_looks.MOST_FRESH_MS)
        node.run(looks.at("dr", read))
        assert len(reads) == 2


def test_a_source_that_hangs_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_looks, "PATIENCE_S", 0.05)
    reads: list[int] = []
    may_go_on = threading.Event()

    def read() -> SourceState:
        reads.append(1)
        may_go_on.wait(60)
        return SourceState({}, {})

    with console_node() as node:
        looks = SourceLooks(node.node.scheduler)
        assert node.run(looks.at("dr", read)).problem == AWAY
        assert node.run(looks.at("dr", read)).problem == AWAY
        assert len(reads) == 1
        may_go_on.set()
        eventually(lambda: node.run(looks.at("dr", read)).problem == "", "it has answered")


def test_a_source_that_refuses_is_named() -> None:
    def read() -> SourceState:
        raise OSError("it is away")

    with console_node() as node:
        looks = SourceLooks(node.node.scheduler)
        assert node.run(looks.at("dr", read)) == (None, "it is away")
