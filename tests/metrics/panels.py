"""The panels of the dashboard files, and their queries as Grafana sends them: with values for its variables. Pure but
for the files."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

MONITORING = Path(__file__).resolve().parents[2] / "docker" / "monitoring"
ALL = ".*"
"""The value of each variable when all is chosen."""
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


class Panel(NamedTuple):
    """A plot, a number (``stat``) or a heading (``row``), with its place in the grid of 24 columns."""

    dashboard: str
    kind: str
    title: str
    unit: str
    place: tuple[int, int, int, int]
    """Column, line, width and height."""
    queries: tuple[tuple[str, str], ...]
    """Pairs of PromQL and the form of the legend."""


class Dashboard(NamedTuple):
    """One file."""

    name: str
    title: str
    variables: tuple[tuple[str, str, str], ...]
    """Each with its name, label and query."""
    panels: tuple[Panel, ...]


def dashboards() -> Iterator[Dashboard]:
    """All files, by name."""
    for path in sorted(MONITORING.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        variables = [each for each in content["templating"]["list"] if each["type"] == "query"]
        yield Dashboard(
            path.stem,
            content["title"],
            tuple((each["name"], each["label"], each["query"]) for each in variables),
            tuple(_panel(path.stem, each) for each in content["panels"]),
        )


def _panel(dashboard: str, found: Mapping[str, Any]) -> Panel:
    unit = found.get("fieldConfig", {}).get("defaults", {}).get("unit", "none")
    place = found["gridPos"]
    queries = tuple((each["expr"], each["legendFormat"]) for each in found.get("targets", ()))
    return Panel(dashboard, found["type"], found["title"], unit, tuple(place[side] for side in "xywh"), queries)


def filled(query: str, rate_interval: str, chosen: Mapping[str, str] | None = None) -> str:
    """A query with the values of variables, all where none is chosen, and Grafana's interval of rates."""
    text = query.replace("$__rate_interval", rate_interval)
    return re.sub(r"\$([a-z]+)", lambda found: (chosen or {}).get(found[1], ALL), text)


def legend(form: str, labels: Mapping[str, str]) -> str:
    """The name of a series in the legend."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), form)
