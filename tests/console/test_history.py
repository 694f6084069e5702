"""The history of a node: it is there at the first look and after a restart, bounded, and read under the pointer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console_node import ConsoleNode, console_node, node_on_disk, often_sampled
from stage import flight

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.monitoring.console import history
from kpybroker.monitoring.console.history import MOST_EVENTS, RANGES, words_of
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.history import changes, recorder
from kpybroker.monitoring.history.samples import HistoryEvent
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpystorage.memory_disk import MemoryDisk
from kpystorage.real_disk import RealDisk
from kpystorage.recovery import Shutdown
from kpystorage.session import DirectorySession
from support.browser import Browser
from support.waiting import eventually

NAME = ".kpybroker_history"
MOST_VALUES = 240
BOLD = "[...figure.querySelectorAll('.legend b')].map((each) => each.textContent)"
READ = f"(figure) => [figure.querySelector('.at').textContent, ...{BOLD}]"
FIRST = "document.querySelector('.plotted')"


def plots(found: Any) -> dict[str, Any]:
    return {plot["title"]: plot["lines"] for plot in found["history"]["plots"]}


def known_values(node: ConsoleNode) -> int:
    (line,) = plots(node.get("/api/history").json)["Requests"]
    return sum(value is not None for value in line["values"])


def eventually_paced(node: ConsoleNode) -> Any:
    """The answer about a group, once two samples tell its pace."""
    found: dict[str, Any] = {}

    def has_pace() -> bool:
        found.update(node.get("/api/group", id="readers").json)
        return found["read_per_s"] is not None

    eventually(has_pace, "a pace")
    return found


def is_written(directory: Path) -> bool:
    return (directory / NAME).exists()


@pytest.fixture(scope="module", autouse=True)
def _often() -> Iterator[None]:
    with often_sampled():
        yield


def test_a_restart_forgets_nothing(tmp_path: Path) -> None:
    with node_on_disk(tmp_path) as node:
        node.create("flights")
        node.produce("flights", [flight(1)])
        node.get("/api/history")
        eventually(lambda: is_written(tmp_path), "the file")
    with node_on_disk(tmp_path) as node:
        assert known_values(node) > 0
        words = [each["words"] for each in node.get("/api/history").json["history"]["events"]]
        assert words.count("node 1 started") == 2


def test_the_file_costs_no_recovery_after_a_crash(tmp_path: Path) -> None:
    with node_on_disk(tmp_path) as node:
        node.create("flights")
        node.get("/api/history")
        eventually(lambda: is_written(tmp_path), "the file")
        assert DirectorySession(RealDisk(), str(tmp_path)).last_shutdown() is Shutdown.PROCESS_DIED


def test_samples_begin_without_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kpybroker.node.assembly.console.HISTORY_AFTER_MS", 10)
    with node_on_disk(tmp_path):
        eventually(lambda: is_written(tmp_path), "the file")


@pytest.mark.parametrize("kind", ["in memory", "switched off"])
def test_a_node_without_a_file_has_a_history_since_the_first_look(tmp_path: Path, kind: str) -> None:
    disk, settings = MemoryDisk(), {} if kind == "in memory" else {"kpybroker_history_enable": "false"}
    with console_node(disk) if kind == "in memory" else node_on_disk(tmp_path, **settings) as node:
        node.get("/api/history")
        eventually(lambda: known_values(node) > 0, "a sample")
    names = disk.list_directory("/data") if kind == "in memory" else [each.name for each in tmp_path.iterdir()]
    assert "meta.properties" in names
    assert NAME not in names


def test_a_page_does_not_wait_for_a_disk_that_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder.HistoryRecorder, "_adopt", lambda *_: None)
    monkeypatch.setattr(history, "PATIENCE_S", 0.1)
    with console_node() as node:
        assert (node.get("/api/history").status, node.get("/").status) == (200, 200)


def test_the_lag_and_the_pace_of_a_group_are_known_at_its_first_look() -> None:
    with console_node() as node:
        node.create("flights")
        node.produce("flights", [flight(number) for number in range(9)])
        node.commit("readers", "flights", 4)
        node.get("/api/history")
        eventually(lambda: known_values(node) > 0, "a sample")
        found = eventually_paced(node)
        assert plots(found)["Lag in records"][0]["values"][-2:].count(5.0) > 0
        assert (found["read_per_s"], found["written_per_s"]) == (0.0, 0.0)


def test_an_answer_is_bounded_and_other_ranges_are_refused() -> None:
    with console_node() as node:
        for each in RANGES:
            found = node.get("/api/history", range=each.name).json["history"]
            assert found["until_ms"] - found["since_ms"] == each.passed_ms
            lengths = {len(line["values"]) for plot in found["plots"] for line in plot["lines"]}
            assert lengths == {each.passed_ms // each.every_ms}
            assert max(lengths) <= MOST_VALUES
            assert node.get("/history", range=each.name).text.count("<figure") == 8
        assert node.get("/api/history", range="1y").status == 400
        assert node.get("/api/history", range="1y").json["error"] == "range is not 10min, 1h, 6h or 24h"


def test_a_change_of_a_config_is_an_event_on_each_plot() -> None:
    with console_node(kpybroker_console_write_enable="true") as node:
        node.create("flights")
        node.get("/api/cluster")
        assert node.post("/topics/flights/configs", name="retention.ms", value="9").status == 200
        words = "retention.ms of topic flights changed"
        eventually(lambda: words in node.get("/").text, "the event")
        page = node.get("/").text
        assert page.count(f"{words}</title>") == page.count("<figure")
        for number in range(MOST_EVENTS):
            node.post("/topics/flights/configs", name="retention.ms", value=str(number + 10))
        eventually(lambda: node.get("/api/cluster").json["history"]["events_left_out"] == 2, "some are left out")
        assert "47 earlier events are on <a" in node.get("/").text


class OnlyTopic:
    """An authorizer by which everybody may describe one topic."""

    def allows(self, _: object, __: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return (kind, name) == (ResourceType.TOPIC, "open") and operation != AclOperation.ALTER


@pytest.mark.parametrize(
    ("event", "words", "to_others"),
    [
        ((changes.STARTED, "1"), "node 1 started", "node 1 started"),
        ((changes.JOINED, "3"), "node 3 has joined", "node 3 has joined"),
        ((changes.LED, "open-0", 1, "2 1"), "open-0 has node 2 as leader, no longer node 1", None),
        ((changes.LED, "shut-0", 1, "2 -1"), "shut-0 has node 2 as leader", "1 partition has node 2 as leader"),
        ((changes.LED, "shut-0", 2, "2 1"), "2 partitions have node 2 as leader, no longer node 1", None),
        ((changes.NOT_LED, "shut-0", 1, "1"), "shut-0 lost the leader, node 1", "1 partition lost the leader, node 1"),
        ((changes.CONFIG, "topic open", 1, "a"), "a of topic open changed", None),
        ((changes.CONFIG, "topic shut", 1, "a"), "a of topic shut changed", ""),
        ((changes.CONFIG, "group g\u202e", 1, "a"), "a of group g<U+202E> changed", ""),
        ((changes.CONFIG, "node ", 1, "a"), "a of all nodes changed", ""),
        ((changes.CONFIG, "node 1", 1, "a"), "a of node 1 changed", ""),
    ],
)
def test_an_event_says_no_more_than_its_viewer_may_know(event: Any, words: str, to_others: str | None) -> None:
    authorizer: Any = OnlyTopic()
    noted = HistoryEvent(1, *event)
    assert words_of(noted, Viewer(ANONYMOUS, "127.0.0.1", None)) == words
    assert words_of(noted, Viewer(ANONYMOUS, "127.0.0.1", authorizer)) == (words if to_others is None else to_others)


# In a browser


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    with console_node() as made:
        made.create("flights")
        made.get("/api/history")
        eventually(lambda: known_values(made) > 1, "samples")
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


def opened(browser: Browser, node: ConsoleNode, width: int = 1400) -> None:
    browser.open(f"http://127.0.0.1:{node.node.http_port}/history?range=10min", theme="light", width=width)


def point(browser: Browser, share: float) -> None:
    """Move the pointer over the first plot."""
    box = json.loads(browser.run(f"JSON.stringify({FIRST}.querySelector('.drawn').getBoundingClientRect())"))
    x, y = box["left"] + share * box["width"], box["top"] + box["height"] / 2
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def read(browser: Browser) -> list[str]:
    """The time and the values that the first plot shows."""
    return json.loads(browser.run(f"JSON.stringify(({READ})({FIRST}))"))  # type: ignore[no-any-return]


@pytest.mark.slow
def test_the_values_under_the_pointer_are_shown_and_the_latest_again_behind_it(
    browser: Browser, node: ConsoleNode
) -> None:
    opened(browser, node)
    at_rest = read(browser)
    assert at_rest[0] == ""
    words = json.loads(browser.run("JSON.stringify(wordsOf(document.querySelector('.plotted')))"))
    since_ms = int(browser.run(f"{FIRST}.dataset.since"))
    for share, number in ((0.001, 0), (0.5, 30), (0.97, 58)):
        point(browser, share)
        found = read(browser)
        assert found[1:] == [line[number] for line in words]
        time = browser.run(f"new Date({since_ms + number * 10_000}).toISOString().slice(11, 19)")
        assert found[0].startswith(time)
    assert browser.run(f"getComputedStyle({FIRST}.querySelector('.cursor')).visibility") == "visible"
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert read(browser) == at_rest


@pytest.mark.slow
def test_the_words_of_an_event_are_shown_near_its_mark(browser: Browser, node: ConsoleNode) -> None:
    opened(browser, node)
    point(browser, float(browser.run(f"{FIRST}.querySelector('.mark').dataset.x")))
    assert read(browser)[0].endswith("node 1 started")


@pytest.mark.slow
def test_arrow_keys_read_a_plot(browser: Browser, node: ConsoleNode) -> None:
    opened(browser, node)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    browser.run(f"{FIRST}.focus()")
    times = []
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        times.append(read(browser)[0][:8])
    assert times[0] == times[2]
    assert times[1] < times[0] or times[0] == "00:00:00"
    browser.run(f"{FIRST}.blur()")
    assert read(browser)[0] == ""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1400])
def test_plots_have_one_size_of_type_and_equal_cards(browser: Browser, node: ConsoleNode, width: int) -> None:
    opened(browser, node, width)
    heights = "[...new Set([...document.querySelectorAll('.plotted')].map((each) => Math.round(each.offsetHeight)))]"
    assert len(browser.run(f"JSON.stringify({heights})").split(",")) == 1
    texts = "[...document.querySelectorAll('.ups span, .times text')]"
    drawn = f"[...new Set({texts}.map((each) => Math.round(each.getBoundingClientRect().height)))]"
    assert [13 <= each <= 16 for each in json.loads(browser.run(f"JSON.stringify({drawn})"))].count(False) == 0
    beside = f"{texts}.every((each) => each.getBoundingClientRect().right <= {width})"
    assert browser.run(beside)
