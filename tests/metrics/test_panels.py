"""A real Prometheus has an answer for every panel and variable of the dashboards, and the pictures show them all."""

import json
from collections.abc import Iterator

import pytest
from grafana_page import FIGURES, SHOWN, SOURCE, THEMES, WIDTH
from panels import LABEL_VALUES, Dashboard, Panel, dashboards, filled
from prometheus_server import Prometheus
from scraped_node import busy_node

from support.waiting import eventually

DASHBOARDS = list(dashboards())
ASKED = [panel for each in DASHBOARDS for panel in each.panels if panel.queries]
RATE_INTERVAL = "1m"
LINE = 38
"""The height of a line of Grafana's grid, with its gap."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has scraped a node that has everything which dashboards ask for."""
    with busy_node() as node:
        addresses = {"node-1": f"127.0.0.1:{node.node.http_port}"}
        with Prometheus(tmp_path_factory.mktemp("prometheus"), addresses, "500ms") as made:
            scrapes = f"count_over_time(up[{RATE_INTERVAL}]) > 2 and up == 1"
            eventually(lambda: made.now(scrapes), "three scrapes, which rates need", within_s=60)
            yield made


@pytest.mark.slow
@pytest.mark.parametrize("panel", ASKED, ids=lambda panel: f"{panel.dashboard}: {panel.title}")
def test_prometheus_has_an_answer_for_a_panel(prometheus: Prometheus, panel: Panel) -> None:
    for query in panel.queries:
        assert prometheus.now(filled(query, RATE_INTERVAL)), query


@pytest.mark.slow
@pytest.mark.parametrize("query", sorted({query for each in DASHBOARDS for query in each.variables}))
def test_a_variable_has_values_to_choose_from(prometheus: Prometheus, query: str) -> None:
    asked = LABEL_VALUES.fullmatch(query)
    assert asked is not None
    assert prometheus.ask(f"label/{asked[2]}/values", **{"match[]": filled(asked[1], RATE_INTERVAL)})


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_the_pictures_show_something_in_every_panel(dashboard: Dashboard) -> None:
    shown = json.loads(SHOWN.read_text(encoding="utf-8"))[dashboard.name]
    assert [title for title, _ in shown] == [each.title for each in dashboard.panels], "make pictures"
    assert not [title for title, count in shown if count < 1]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_a_picture_has_the_size_of_its_dashboard(dashboard: Dashboard, theme: str) -> None:
    start = (FIGURES / f"{dashboard.name}-{theme}.png").read_bytes()[:24]
    assert start[:16] == b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    width, height = int.from_bytes(start[16:20]), int.from_bytes(start[20:])
    assert width == WIDTH
    assert 0 < height - dashboard.lines * LINE < 200


def test_the_page_can_draw_every_panel_type_of_the_dashboards() -> None:
    assert {each.kind for dashboard in DASHBOARDS for each in dashboard.panels} == {
        path.stem for path in (SOURCE / "kinds").iterdir()
    }


def test_the_components_of_grafana_have_licences_that_ask_for_nothing() -> None:
    lock = json.loads((SOURCE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    direct = {f"node_modules/{name}" for kind in ("dependencies", "devDependencies") for name in lock[""][kind]}
    assert {lock[name]["license"] for name in direct} == {"Apache-2.0", "MIT"}
    assert not [name for name, each in lock.items() if "GPL" in each.get("license", "")]


def test_the_document_shows_every_picture_and_no_other_is_kept() -> None:
    kept = {path.name for path in FIGURES.iterdir()}
    assert kept == {f"{each.name}-{theme}.png" for each in DASHBOARDS for theme in THEMES}
    text = (FIGURES.parents[1] / "metrics.md").read_text(encoding="utf-8")
    assert not [name for name in kept if f"figures/dashboards/{name}" not in text]
    version = json.loads((SOURCE / "package.json").read_text(encoding="utf-8"))["dependencies"]["@grafana/ui"]
    assert f"`@grafana/ui` {version}" in text
