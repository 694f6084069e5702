"""Writes the Grafana dashboards of clusters, groups and Spark's readers: ``python docker/monitoring/dashboards.py``.

A dashboard is rows of panels, a panel is a few queries. In a query ``OF`` stands for the labels that the dashboard
selects by, and ``RATE`` for the interval of rates. The dashboard of a node is ``kpybroker.json``. A test compares the
files with what this program makes.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
IN_CLUSTER = 'job=~"$cluster"'
SPARK = "READERS_OF_SPARK"
REPLACED = {
    "OF": IN_CLUSTER,
    "TOPIC": 'topic=~"$topic",topic!=""',
    "GROUP": 'consumergroup=~"$group"',
    SPARK: 'consumergroup=~"spark-kafka-source-.*|kpybroker-scan"',
    "RATE": "$__rate_interval",
}
CONTROLLER = "kafka_controller_kafkacontroller"
REPLICAS = "kafka_server_replicamanager"
TRAFFIC = "kafka_server_brokertopicmetrics"


Step = tuple[float | None, str]
"""The value from which on a number has a colour. The first step has none."""
PLAIN: tuple[Step, ...] = ((None, "text"),)
NONE_IS_GOOD: tuple[Step, ...] = ((None, "green"), (1, "red"))
ONE_IS_GOOD: tuple[Step, ...] = ((None, "red"), (1, "green"), (2, "red"))


class Panel(NamedTuple):
    """A plot, or a number for each series if ``is_stat``. ``queries`` are pairs of PromQL and legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    is_stat: bool = False
    description: str = ""
    steps: tuple[Step, ...] = ()
    """The colours of a number."""


Rows = dict[str, tuple[Panel, ...]]


def stat(title: str, query: str, steps: tuple[Step, ...] = NONE_IS_GOOD, description: str = "") -> Panel:
    """A number for each cluster."""
    return Panel(title, "none", ((query, "{{job}}"),), True, description, steps)


def plot(title: str, unit: str, query: str, legend: str = "{{instance}}", description: str = "") -> Panel:
    """A plot of one query, by default with a line for each node."""
    return Panel(title, unit, ((query, legend),), description=description)


CLUSTER_ROWS: Rows = {
    "Health": (
        stat("Active controllers", f"sum by (job) ({CONTROLLER}_activecontrollercount{{OF}})", ONE_IS_GOOD),
        stat("Brokers alive", f"max by (job) ({CONTROLLER}_activebrokercount{{OF}})", PLAIN),
        stat("Brokers fenced", f"max by (job) ({CONTROLLER}_fencedbrokercount{{OF}})"),
        stat("Partitions without a leader", f"max by (job) ({CONTROLLER}_offlinepartitionscount{{OF}})"),
        stat("Partitions under-replicated", f"sum by (job) ({REPLICAS}_underreplicatedpartitions{{OF}})"),
        stat(
            "Refusing acks=all",
            f"sum by (job) ({REPLICAS}_underminisrpartitioncount{{OF}})",
            description="Partitions with fewer in-sync replicas than min.insync.replicas",
        ),
    ),
    "Replication": (
        plot("Partitions led", "none", f"{REPLICAS}_leadercount{{OF}}"),
        plot("In-sync sets that shrink", "cps", f"rate({REPLICAS}_isrshrinks_total{{OF}}[RATE])"),
        plot("Bytes to followers", "Bps", f"rate({TRAFFIC}_replicationbytesout_total{{OF}}[RATE])"),
        plot("Not led by the first replica", "none", f"{CONTROLLER}_preferredreplicaimbalancecount{{OF}}"),
        plot(
            "Unclean elections in 10 minutes",
            "none",
            "increase(kafka_controller_controllerstats_uncleanleaderelections_total{OF}[10m])",
        ),
        plot("Failed log directories", "none", "kafka_log_logmanager_offlinelogdirectorycount{OF}"),
    ),
    "Quorum": (
        plot("Leader", "none", "kafka_server_raftmetrics_current_leader{OF}", description="As each node sees it"),
        plot("Epoch", "none", "kafka_server_raftmetrics_current_epoch{OF}"),
        plot("End of the metadata log", "none", "kafka_server_raftmetrics_log_end_offset{OF}"),
    ),
    "Load of the nodes": (
        plot("Bytes in", "Bps", f'rate({TRAFFIC}_bytesin_total{{OF,topic=""}}[RATE])'),
        plot("Bytes out", "Bps", f'rate({TRAFFIC}_bytesout_total{{OF,topic=""}}[RATE])'),
        plot("Requests", "reqps", "sum by (instance) (rate(kafka_network_requestmetrics_requests_total{OF}[RATE]))"),
        plot("Idle", "percentunit", "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent{OF}"),
        plot("Loop lag, 99th percentile", "s", 'kpybroker_loop_lag_seconds{OF,quantile="0.99"}'),
        plot("Connections", "none", "sum by (instance) (kafka_server_socket_server_metrics_connection_count{OF})"),
    ),
}


def reader_rows(readers: str) -> Rows:
    """Lag and progress of groups or readers without a group, by topic. ``readers`` is the label that selects them."""
    labels = f"{{OF,{readers},TOPIC}}"
    legend = "{{topic}}: {{consumergroup}}"
    by_topic = "max by (consumergroup, topic)"
    return {
        "Lag": (
            plot(
                "Lag in seconds",
                "s",
                f"{by_topic} (kpybroker_consumergroup_lag_seconds{labels})",
                legend,
                "The age of the oldest record that is not read yet",
            ),
            plot("Lag in records", "none", f"{by_topic} (kafka_consumergroup_lag_sum{labels})", legend),
            plot(
                "Worst partitions, lag in records",
                "none",
                f"topk by (consumergroup) (3, kafka_consumergroup_lag{labels})",
                "{{topic}}-{{partition}}: {{consumergroup}}",
            ),
        ),
        "Progress": (
            plot(
                "Records read",
                "cps",
                f"{by_topic} (rate(kafka_consumergroup_current_offset_sum{labels}[RATE]))",
                legend,
            ),
            plot(
                "Records written",
                "cps",
                f"sum by (topic) (rate({TRAFFIC}_messagesin_total{{OF,TOPIC}}[RATE]))",
                "{{topic}}",
            ),
            plot(
                "Held back by open transactions",
                "none",
                "max by (topic) (kafka_cluster_partition_laststableoffsetlag{OF,TOPIC})",
                "{{topic}}",
                "Most records of a partition between the last stable offset and the high watermark",
            ),
        ),
    }


STATES = ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty")
GROUP_ROWS: Rows = {
    **reader_rows("GROUP"),
    "Members": (
        plot(
            "Members",
            "none",
            "max by (consumergroup) (kafka_consumergroup_members{OF,GROUP})",
            "{{consumergroup}}",
        ),
        plot(
            "Rebalances in 10 minutes",
            "none",
            "max by (consumergroup) (changes(kpybroker_consumergroup_generation{OF,GROUP}[10m]))",
            "{{consumergroup}}",
        ),
        Panel(
            "Groups by state",
            "none",
            tuple(
                (f"sum(kafka_coordinator_group_groupmetadatamanager_numgroups{state.lower()}{{OF}})", state)
                for state in STATES
            ),
        ),
    ),
}
SPARK_ROWS: Rows = {
    **reader_rows(SPARK),
    "Clients": (
        plot(
            "Client ids of a query",
            "none",
            f"count by (consumergroup) (kpybroker_reader_info{{OF,{SPARK}}})",
            "{{consumergroup}}",
        ),
        plot(
            "Fetch, 99th percentile",
            "ms",
            'kafka_network_requestmetrics_totaltimems{OF,request="Fetch",quantile="0.99"}',
        ),
        plot("Bytes read", "Bps", f"sum by (topic) (rate({TRAFFIC}_bytesout_total{{OF,TOPIC}}[RATE]))", "{{topic}}"),
    ),
}


def query(text: str) -> str:
    """A query with the labels and intervals that its words stand for."""
    for word, meaning in REPLACED.items():
        for before, after in (("{", "}"), ("{", ","), (",", "}"), (",", ","), ("[", "]")):
            text = text.replace(f"{before}{word}{after}", f"{before}{meaning}{after}")
    return text


def panel(number: int, found: Panel, place: tuple[int, int], width: int) -> dict[str, Any]:
    """A panel as Grafana has it. ``place`` is its column and line in the grid."""
    targets = [
        {"refId": chr(ord("A") + index), "expr": query(text), "legendFormat": legend, "instant": found.is_stat}
        for index, (text, legend) in enumerate(found.queries)
    ]
    options: dict[str, Any] = {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    if found.is_stat:
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    defaults: dict[str, Any] = {"unit": found.unit, "min": 0}
    if found.steps:
        steps = [{"value": value, "color": colour} for value, colour in found.steps]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "id": number,
        "type": "stat" if found.is_stat else "timeseries",
        "title": found.title,
        "description": found.description,
        "datasource": SOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "gridPos": {"h": 4 if found.is_stat else 8, "w": width, "x": place[0], "y": place[1]},
    }


def variable(name: str, label: str, text: str) -> dict[str, Any]:
    """A choice above the panels, among the values of a label."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": query(text),
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def dashboard(name: str, title: str, rows: Rows, *variables: dict[str, Any]) -> dict[str, Any]:
    """A dashboard, its panels laid out row by row."""
    panels: list[dict[str, Any]] = []
    line = 0
    for heading, row in rows.items():
        grid = {"h": 1, "w": 24, "x": 0, "y": line}
        panels.append({"id": len(panels) + 1, "type": "row", "title": heading, "gridPos": grid, "panels": []})
        line += 1
        in_a_line = 6 if row[0].is_stat else 3
        width = 24 // in_a_line
        for first in range(0, len(row), in_a_line):
            for column, found in enumerate(row[first : first + in_a_line]):
                panels.append(panel(len(panels) + 1, found, (column * width, line), width))
            line += panels[-1]["gridPos"]["h"]
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}}
    cluster = variable("cluster", "Cluster", f"label_values({REPLICAS}_partitioncount, job)")
    return {
        "uid": name,
        "title": title,
        "tags": ["kafka", "kpybroker"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [source, cluster, *variables]},
        "panels": panels,
    }


def dashboards() -> dict[str, dict[str, Any]]:
    """Every dashboard of this program by the name of its file."""
    topic = variable("topic", "Topic", "label_values(kafka_topic_partitions{OF}, topic)")
    group = variable("group", "Group", "label_values(kafka_consumergroup_members{OF}, consumergroup)")
    made = (
        dashboard("kpybroker-cluster", "kpybroker: cluster", CLUSTER_ROWS),
        dashboard("kpybroker-groups", "kpybroker: groups", GROUP_ROWS, topic, group),
        dashboard("kpybroker-spark", "kpybroker: Spark's readers", SPARK_ROWS, topic),
    )
    return {f"{each['uid']}.json": each for each in made}


if __name__ == "__main__":
    for name, content in dashboards().items():
        (HERE / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
