"""Dashboards that others made find what they ask for, by name and label, but for what is named here with its reason.

`dashboards.json` has every metric that their queries ask a broker for, with the labels that they select by: Strimzi's
examples/metrics (August 2026), and those of Confluent's jmx-monitoring-stacks (November 2025) that are about brokers.
"""

import json
from pathlib import Path

import pytest
from scraped_node import Scrape, commit, scraped_node

from support.raw_client import RawClient
from support.raw_requests import append, create

HERE = Path(__file__).parent
DASHBOARDS: dict[str, dict[str, list[str]]] = json.loads((HERE / "dashboards.json").read_text(encoding="utf-8"))
ADDED_BY_PROMETHEUS = {
    *("container", "env", "instance", "job", "kubernetes_pod_name", "namespace"),
    *("strimzi_io_cluster", "strimzi_io_name"),
}
ONLY_AFTER_A_FAULT = {"kafka_network_requestmetrics_errorspersec", "kafka_network_requestmetrics_errors_total"}
NOT_MEASURED = {
    "kafka_server_raftchannelmetrics_": "what the quorum's connections carry",
    "kafka_server_raftmetrics_commit_latency": "how long metadata take to be committed",
    "kafka_server_raft_metrics_commit_latency": "the same",
    "kafka_server_raft_metrics_election_latency": "how long elections take",
    "kafka_controller_controllereventmanager_": "a controller without a queue of events",
    "kafka_controller_kafkacontroller_lastappliedrecordlagms": "how old the last applied metadata are",
    "kafka_controller_kafkacontroller_metadataerrorcount": "an error in the metadata ends the node",
    "kafka_network_requestchannel_": "there are no queues between threads",
    "kafka_network_acceptor_": "there is no thread that accepts",
    "kafka_server_socketservermetrics_connection_close": "a rate; those that are open are counted",
    "kafka_server_socketservermetrics_connection_creation": "a rate; connections accepted are counted",
    "kafka_server_replicafetchermanager_minfetchrate": "how often followers fetch",
    "kafka_server_brokertopicmetrics_fetchmessageconversions": "nothing is converted",
    "kafka_server_brokertopicmetrics_producemessageconversions": "nothing is converted",
    "kafka_server_replicamanager_straypartitions": "Confluent's server only",
    "kafka_log_log_tiersize": "Confluent's tiered storage",
    "kafka_tier_": "Confluent's tiered storage",
}
"""By the beginnings of names."""


SETTINGS: dict[str, dict[str, str]] = {
    "strimzi": {},
    "confluent": {"kpybroker_metrics_dialects": "confluent,kafka_lag_exporter"},
}
"""Strimzi's find everything in what a node shows by default."""


@pytest.fixture(scope="module", params=SETTINGS)
def maker(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def scrape(maker: str) -> Scrape:
    with scraped_node(**SETTINGS[maker]) as node, RawClient(node.port, client_id="worker") as client:
        create(client, "flights", 2)
        append(client, "flights", 1_000)
        commit(client, "readers", "flights", 0)
        return node.scrape()


def test_dashboards_find_what_they_ask_for(scrape: Scrape, maker: str) -> None:
    for dashboard in (name for name in DASHBOARDS if name.startswith(maker)):
        finds(scrape, DASHBOARDS[dashboard])


def finds(scrape: Scrape, asked: dict[str, list[str]]) -> None:
    found = {name: labels for name, labels in asked.items() if name in scrape.samples}
    missing = [name for name in asked if name not in found and name not in ONLY_AFTER_A_FAULT]
    assert not [name for name in missing if not name.startswith(tuple(NOT_MEASURED))]
    for name, labels in found.items():
        there = {label for series in scrape.samples[name] for label, _ in series}
        assert set(labels) <= there | ADDED_BY_PROMETHEUS, name


def test_strimzis_dashboards_of_brokers_and_lag_miss_nothing() -> None:
    for dashboard in ("strimzi-kafka", "strimzi-kafka-exporter"):
        assert not [name for name in DASHBOARDS[dashboard] if name.startswith(tuple(NOT_MEASURED))]


def test_dashboard_queries_without_a_metric_are_listed_as_missing(scrape: Scrape) -> None:
    every = {name for asked in DASHBOARDS.values() for name in asked}
    for beginning in NOT_MEASURED:
        assert any(name.startswith(beginning) for name in every), beginning
        assert not any(name.startswith(beginning) for name in every & scrape.samples.keys()), beginning
