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
    """A plot, a number (``stat``) or a heading (``row``)."""

    dashboard: str
    kind: str
    title: str
    queries: tuple[str, ...]


class Dashboard(NamedTuple):
    """One file."""

    name: str
    lines: int
    """The lines of its grid."""
    variables: tuple[str, ...]
    """The query of each."""
    panels: tuple[Panel, ...]


def dashboards() -> Iterator[Dashboard]:
    """All files, by name."""
    for path in sorted(MONITORING.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        places = [each["gridPos"] for each in content["panels"]]
        yield Dashboard(
            path.stem,
            max(place["y"] + place["h"] for place in places),
            tuple(each["query"] for each in content["templating"]["list"] if each["type"] == "query"),
            tuple(_panel(path.stem, each) for each in content["panels"]),
        )


def _panel(dashboard: str, found: Mapping[str, Any]) -> Panel:
    return Panel(dashboard, found["type"], found["title"], tuple(each["expr"] for each in found.get("targets", ())))


def filled(query: str, rate_interval: str, chosen: Mapping[str, str] | None = None) -> str:
    """A query with the values of variables, all where none is chosen, and Grafana's interval of rates."""
    text = query.replace("$__rate_interval", rate_interval)
    return re.sub(r"\$([a-z]+)", lambda found: (chosen or {}).get(found[1], ALL), text)
