"""The page of Grafana's components shows what Prometheus answers, and is loud about a panel that it cannot draw."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from grafana_page import bundle, draw, served

from support.browser import Browser

pytestmark = pytest.mark.slow
SERIES = {"lag": ("billing", "search"), "memory": ("node-1",), "nothing": (), "undefined": ("node-1",)}
FROM, TO, STEP = 1_700_000_000, 1_700_000_060, 3
VALUE = 1536


class _Answers(BaseHTTPRequestHandler):
    """Prometheus' two ways to ask, with the series of ``SERIES``."""

    def do_GET(self) -> None:
        words = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        text = "NaN" if words["query"] == "undefined" else str(VALUE)
        points: dict[str, Any] = {"value": [TO, text]}
        if "step" in words:
            points = {"values": [[when, text] for when in range(FROM, TO, STEP)]}
        result = [{"metric": {"name": name}, **points} for name in SERIES.get(words["query"], ())]
        answer = {"status": "success", "data": {"result": result}}
        if words["query"] not in SERIES:
            answer = {"status": "error", "error": "parse error"}
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


@contextmanager
def answering() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


Drawn = Callable[..., dict[int, list[str]]]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drawn]:
    """Draws panels of a dashboard, with ids from 1."""
    site = bundle()
    with served(site) as page, answering() as prometheus, Browser(tmp_path_factory.mktemp("profile")) as browser:

        def draw_all(*panels: dict[str, Any]) -> dict[int, list[str]]:
            numbered = [{"id": number, **each} for number, each in enumerate(panels, 1)]
            dashboard = {"title": "test", "templating": {"list": []}, "panels": numbered}
            span = {"from": FROM, "to": TO, "step": STEP}
            request = {"dashboard": dashboard, "chosen": {}, "prometheus": prometheus, **span, "theme": "dark"}
            return draw(browser, page, request)

        yield draw_all


def panel(kind: str, query: str, unit: str = "none", **config: object) -> dict[str, Any]:
    return {
        "type": kind,
        "title": query,
        "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8},
        "targets": [{"refId": "A", "expr": query, "legendFormat": "{{name}}", "instant": kind == "stat"}],
        "fieldConfig": {"defaults": {"unit": unit, **config}, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}} if kind == "stat" else {},
    }


def test_a_plot_has_each_series_in_its_legend_and_a_number_has_its_unit(drawn: Drawn) -> None:
    heading = {"type": "row", "title": "Health", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}}
    found = drawn(heading, panel("timeseries", "lag"), panel("stat", "memory", "bytes"))
    assert found == {1: ["Health"], 2: ["billing", "search"], 3: ["1.50 KiB"]}


@pytest.mark.parametrize("kind", ["timeseries", "stat"])
def test_a_panel_without_numbers_shows_nothing(drawn: Drawn, kind: str) -> None:
    assert drawn(panel(kind, "nothing"), panel(kind, "undefined")) == {1: [], 2: []}


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (panel("heatmap", "lag"), "no panel of type heatmap"),
        (panel("timeseries", "lag", custom={"glow": 3}), "no field property custom.glow"),
        (panel("stat", "memory", glow=3), "no field property glow"),
        (panel("timeseries", "sum("), "parse error"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_panel_that_the_page_cannot_draw_is_an_error(drawn: Drawn, asked: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        drawn(asked)
