"""Alert rules and dashboards: Prometheus takes the rules, they fire when due, and a node exports what they ask for."""

import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from prometheus_server import program
from scraped_node import Scrape, busy_node, documented_names

REPOSITORY = Path(__file__).parents[2]
MONITORING = REPOSITORY / "docker" / "monitoring"
RULES = MONITORING / "alerts.yml"
CASES = Path(__file__).parent / "alert_cases.yml"
EXPORTED_AFTER_A_FAULT = {
    "kpybroker_log_damaged_places": "a reader has met damage",
    "kafka_log_logcleanermanager_uncleanable_partitions_count": "compaction has run",
}
EXPORTED_WITH_TIERED_STORAGE = {
    "kafka_server_brokertopicmetrics_remotecopylagsegments",
    "kafka_server_brokertopicmetrics_remotefetcherrors_total",
    "kpybroker_remote_store_failing",
}
ADDED_BY_PROMETHEUS = {"up"}
NOT_OF_EVERY_NODE = {*EXPORTED_AFTER_A_FAULT, *EXPORTED_WITH_TIERED_STORAGE, *ADDED_BY_PROMETHEUS}
NOT_METRICS = re.compile(
    r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|on|without|ignoring) \([^)]*\)|\b(?:and|or|unless)\b|\b\w+(?= *\()'
)
SELECTOR = re.compile(r"([a-z_]\w*)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)\s*(=~|!~|!=|=)\s*\"([^\"]*)\"")


def rules() -> dict[str, str]:
    """The expressions by the names of their alerts. YAML that is as simple as this needs no library."""
    found = {}
    for part in RULES.read_text().split("- alert: ")[1:]:
        name, _, rest = part.partition("\n")
        expression = re.search(r"^ +expr: (?:>-\n)?(.*?)\n +(?:for|labels): ", rest, re.MULTILINE | re.DOTALL)
        assert expression is not None, name
        found[name] = re.sub(r"\s+", " ", expression[1]).strip()
    return found


def queries(dashboard: Path) -> list[str]:
    content = json.loads(dashboard.read_text())
    panels = [target["expr"] for panel in content["panels"] for target in panel.get("targets", ())]
    return panels + [each["query"] for each in content["templating"]["list"] if "(" in each["query"]]


def names_in(expression: str) -> set[str]:
    """The metrics of an expression."""
    if looked_up := re.fullmatch(r"label_values\((\w+)(?:\{.*\})?, \w+\)", expression):
        return {looked_up[1]}
    selected = {name for name, _ in SELECTOR.findall(expression)}
    previous, plain = "", SELECTOR.sub(" ", expression)
    while plain != previous:
        previous, plain = plain, NOT_METRICS.sub(" ", plain)
    return selected | set(re.findall(r"[a-z_]\w*", plain))


EXPRESSIONS = {
    **{f"alert {name}": text for name, text in rules().items()},
    **{
        f"{path.stem} {number}": text
        for path in sorted(MONITORING.glob("*.json"))
        for number, text in enumerate(queries(path))
    },
}


@pytest.fixture(scope="module")
def scrape() -> Iterator[Scrape]:
    with busy_node() as node:
        yield node.scrape()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_metrics_of_alert_rules_are_exported(scrape: Scrape, name: str) -> None:
    names = names_in(EXPRESSIONS[name])
    assert names
    assert not names - scrape.samples.keys() - NOT_OF_EVERY_NODE


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_fixed_label_values_of_alert_rules_exist(scrape: Scrape, name: str) -> None:
    """Labels that a person chooses and the state of a group's readers may select nothing; the rest selects a series."""
    for metric, selector in SELECTOR.findall(EXPRESSIONS[name]):
        wanted = [
            (label, operator, text)
            for label, operator, text in LABEL.findall(selector)
            if "$" not in text and label not in ("job", "instance")
        ]
        series = [dict(labels) for labels in scrape.samples.get(metric, ())]
        if metric in NOT_OF_EVERY_NODE:
            continue
        assert any(all(selects(each, *condition) for condition in wanted) for each in series), (metric, selector)


def selects(labels: dict[str, str], label: str, operator: str, text: str) -> bool:
    value = labels.get(label, "")
    same = re.fullmatch(text, value) is not None if "~" in operator else value == text
    return same != operator.startswith("!")


def test_metrics_that_not_every_node_has_are_documented() -> None:
    needed = NOT_OF_EVERY_NODE - ADDED_BY_PROMETHEUS
    assert needed <= documented_names()
    used = set().union(*(names_in(text) for text in EXPRESSIONS.values()))
    assert needed <= used


def test_the_dashboards_are_those_that_their_program_writes() -> None:
    made = dashboards_program().dashboards()
    assert {path.name for path in MONITORING.glob("*.json")} == {"kpybroker.json", *made}
    for name, content in made.items():
        written = json.loads((MONITORING / name).read_text())
        assert written == content, "run: python docker/monitoring/dashboards.py"
        assert all(each["gridPos"]["x"] + each["gridPos"]["w"] <= 24 for each in content["panels"])


def dashboards_program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboards", MONITORING / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("words", [["check", "rules", RULES], ["test", "rules", CASES]], ids=["loads", "fires"])
def test_prometheus_takes_the_rules_and_they_fire(words: list[str | Path]) -> None:
    command = [program("promtool"), *map(str, words)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules())} rules found" in done.stdout or "SUCCESS" in done.stdout


def test_every_alert_has_a_case_that_fires() -> None:
    assert set(re.findall(r'alertname="(\w+)"', CASES.read_text())) == rules().keys()
