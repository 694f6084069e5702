"""A real Prometheus has an answer for every panel and variable of the dashboards, and the pictures show every panel."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawn import PAPERS, place_of
from panels import LABEL_VALUES, Dashboard, Panel, dashboards, filled
from prometheus_server import Prometheus
from scraped_node import busy_node

from waiting import eventually

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures" / "dashboards"
ASKED = [panel for each in dashboards() for panel in each.panels if panel.queries]
RATE_INTERVAL = "1m"


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
    for query, _ in panel.queries:
        assert prometheus.now(filled(query, RATE_INTERVAL)), query


@pytest.mark.slow
@pytest.mark.parametrize("query", sorted({query for each in dashboards() for *_, query in each.variables}))
def test_a_variable_has_values_to_choose_from(prometheus: Prometheus, query: str) -> None:
    asked = LABEL_VALUES.fullmatch(query)
    assert asked is not None
    assert prometheus.ask(f"label/{asked[2]}/values", **{"match[]": filled(asked[1], RATE_INTERVAL)})


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("dashboard", list(dashboards()), ids=lambda each: each.name)
def test_a_picture_shows_every_panel_at_its_place(dashboard: Dashboard, paper: str) -> None:
    picture = ElementTree.parse(FIGURES / f"{dashboard.name}-{paper}.svg")
    groups = picture.iterfind("{*}g")
    shown = [(each.get("transform"), next(each.iterfind("{*}text")).text) for each in groups]
    placed = [("translate({:g} {:g})".format(*place_of(each)), each.title) for each in dashboard.panels]
    assert shown == placed, "make pictures"


def test_the_document_shows_every_picture_and_no_other_is_kept() -> None:
    kept = {path.name for path in FIGURES.iterdir()}
    assert kept == {f"{each.name}-{paper}.svg" for each in dashboards() for paper in PAPERS}
    text = (FIGURES.parents[1] / "metrics.md").read_text(encoding="utf-8")
    assert not [name for name in kept if f"figures/dashboards/{name}" not in text]
