"""A scrape of a node that served a few requests; documents and dashboards name nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scraped_node import NEW_SESSION, Scrape, ScrapedNode, commit, documented_names, fetch_of, scraped_node

from kpybroker.config.own_configs import METRIC_DIALECTS, METRIC_LABELS
from kpybroker.monitoring.metrics.partitions import REPLICAS_PER_SLICE, PartitionTables
from kpybroker.monitoring.metrics.table import DIALECTS
from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.metadata import MetadataRequest
from release.documents.metrics import SECTIONS
from support.raw_client import RawClient
from support.raw_requests import append, batch_of, create, deletion, produce, wait_until_gone

REPOSITORY = Path(__file__).parents[2]
WAIT_MS = 60
STATIC = {"namespace": "kafka", "strimzi_io_cluster": 'a "b"'}
PHASES = ("requestqueue", "local", "remote", "responsequeue", "responsesend", "total")


@pytest.fixture(scope="module")
def node() -> Iterator[ScrapedNode]:
    """In every dialect, after some work, with the clients still there."""
    with (
        scraped_node(kpybroker_metrics_dialects=",".join(DIALECTS)) as running,
        RawClient(running.port, client_id="worker") as client,
        RawClient(running.port, client_id="other") as other,
    ):
        client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1.0"), 3)
        create(client, "flights", 2)
        append(client, "flights", 1_000, 2_000)
        refused = produce(client, "nowhere", batch_of(1))
        assert refused.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
        client.call(fetch_of("flights", 0), 12)
        client.call(fetch_of("flights", 2, wait_ms=WAIT_MS), 12)
        other.call(fetch_of("missing", 0), 12)
        other.call(fetch_of("flights", 1, session_epoch=NEW_SESSION), 12)
        commit(client, "readers", "flights", 1)
        yield running


@pytest.fixture(scope="module")
def scrape(node: ScrapedNode) -> Scrape:
    return node.scrape()


def test_throughput_is_reported_by_topic_and_in_sum(scrape: Scrape) -> None:
    records = scrape.labelled("kafka_server_brokertopicmetrics_messagesin_total", "topic")
    assert records["flights"] == 2
    assert records[""] == sum(value for topic, value in records.items() if topic)
    size = scrape.value("kafka_server_brokertopicmetrics_bytesin_total", topic="flights")
    assert size == scrape.value("kafka_log_log_size", topic="flights", partition="0") > 0
    assert scrape.value("kafka_server_brokertopicmetrics_bytesout_total", topic="flights") == 2 * size


def test_sizes_and_offsets_are_reported_by_partition(scrape: Scrape) -> None:
    for name, values in {
        "kafka_log_log_logstartoffset": (0, 0),
        "kafka_log_log_logendoffset": (2, 0),
        "kafka_topic_partition_current_offset": (2, 0),
        "kafka_topic_partition_oldest_offset": (0, 0),
        "kafka_topic_partition_leader": (1, 1),
        "kafka_cluster_partition_underreplicated": (0, 0),
    }.items():
        found = tuple(scrape.value(name, topic="flights", partition=str(index)) for index in range(2))
        assert found == values, name
    assert scrape.value("kafka_topic_partitions", topic="flights") == 2
    assert scrape.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 0


def test_requests_and_errors_are_counted_by_what_they_are(scrape: Scrape) -> None:
    requests = "kafka_network_requestmetrics_requests_total"
    assert scrape.value(requests, request="Fetch", version="12") == 4
    assert scrape.value(requests, request="Produce", version="9") == 2
    errors = "kafka_network_requestmetrics_errors_total"
    assert scrape.value(errors, request="Fetch", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert scrape.value(errors, request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert scrape.value("kafka_server_brokertopicmetrics_totalproducerequests_total", topic="flights") == 1


def test_the_time_of_a_request_is_split(scrape: Scrape) -> None:
    times = {
        phase: scrape.value(f"kafka_network_requestmetrics_{phase}timems", request="Fetch", quantile="0.999")
        for phase in PHASES
    }
    # Something may be missing, since times are kept by half octaves.
    assert times["total"] >= times["remote"] >= WAIT_MS / 1.5
    assert all(value < WAIT_MS for phase, value in times.items() if phase not in ("remote", "total", "local"))
    for phase in PHASES:
        assert scrape.value(f"kafka_network_requestmetrics_{phase}timems_count", request="Fetch") == 4
    produced = scrape.value("kafka_network_requestmetrics_remotetimems", request="Produce", quantile="0.99")
    assert produced < WAIT_MS, "without acks=all nothing is waited for"


def test_quorum_metrics_show_the_view_of_this_node(node: ScrapedNode) -> None:
    before = node.scrape()
    with RawClient(node.port) as client:
        create(client, "more")
    after = node.scrape()
    raft = "kafka_server_raftmetrics_{}".format
    for name in ("current_leader", "current_epoch", "current_vote"):
        assert after.value(raft(name)) == 1
    assert after.value(raft("current_state"), current_state="leader") == 1
    assert after.value(raft("log_end_offset")) > before.value(raft("log_end_offset"))
    assert after.value(raft("high_watermark")) > before.value(raft("high_watermark"))
    assert after.value(raft("append_records_rate")) > 0
    assert after.value(raft("fetch_records_rate")) == 0


def test_connections_are_reported_by_listener_and_software(scrape: Scrape) -> None:
    where = {"listener": "PLAINTEXT", "networkProcessor": "0"}
    assert scrape.value("kafka_server_socket_server_metrics_connection_count", **where) == 2
    software = "kafka_server_socket_server_metrics_connections_software"
    named = {"clientSoftwareName": "raw", "clientSoftwareVersion": "1.0", **where}
    assert scrape.value(software, **named) == 1
    assert sum(scrape.samples[software].values()) == 2


def test_memory_open_files_and_the_loop_are_reported(scrape: Scrape) -> None:
    assert scrape.value("kpybroker_request_memory_used_bytes") == 0
    assert scrape.value("kpybroker_request_memory_limit_bytes") > 0
    assert set(scrape.labelled("kpybroker_loop_lag_seconds", "quantile")) >= {"0.50", "0.999"}
    assert 0 <= scrape.value("kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent") <= 1
    if Path("/proc/self/status").exists():
        assert scrape.value("process_open_fds") > 0
        assert 0 < scrape.value("kpybroker_memory_anonymous_bytes") <= scrape.value("process_resident_memory_bytes")


def test_every_value_leaves_in_every_dialect(scrape: Scrape) -> None:
    for _, tables in SECTIONS:
        for table in tables:
            for measure in table.measures:
                names = {name.text for name in measure.names.values()}
                shown = names & scrape.samples.keys()
                assert not shown or shown == names


def test_a_compressed_scrape_says_the_same(node: ScrapedNode) -> None:
    assert node.scrape(compressed=True).samples.keys() == node.scrape().samples.keys()


def test_exported_metrics_can_be_chosen_and_labelled() -> None:
    labels = 'namespace=kafka, strimzi_io_cluster=a "b"'
    with scraped_node(kpybroker_metrics_dialects="confluent", kpybroker_metrics_static_labels=labels) as node:
        scrape = node.scrape()
    assert "kafka_server_brokertopicmetrics_bytesinpersec" in scrape.samples
    assert scrape.types["kafka_server_brokertopicmetrics_bytesinpersec"] == "untyped"
    assert "kafka_server_brokertopicmetrics_bytesin_total" not in scrape.samples
    assert not any(name.startswith("kpybroker_") for name in scrape.samples)
    for name, series in scrape.samples.items():
        for labels_of in series:
            assert STATIC.items() <= dict(labels_of).items(), name


def test_partitions_beyond_the_limit_are_in_the_sums() -> None:
    with scraped_node(kpybroker_metrics_max_partitions="3") as node, RawClient(node.port) as client:
        for name in ("first", "second"):
            create(client, name, 2)
            append(client, name, 1)
        scrape = node.scrape()
    assert set(scrape.labelled("kafka_server_brokertopicmetrics_messagesin_total", "topic")) == {"", "first"}
    assert scrape.value("kafka_server_brokertopicmetrics_messagesin_total") == 2
    assert len(scrape.samples["kafka_log_log_size"]) <= 3
    assert scrape.value("kafka_server_replicamanager_partitioncount") == 4
    assert scrape.value("kpybroker_partitions_left_out") == 1


def test_counts_of_a_deleted_topic_stay_in_the_sum() -> None:
    with scraped_node() as node, RawClient(node.port) as client:
        create(client, "gone")
        append(client, "gone", 1, 2, 3)
        before = node.scrape()
        client.call(deletion("gone"), 6)
        wait_until_gone(client, "gone")
        after = node.scrape()
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert before.labelled(name, "topic") == {"": 3, "gone": 3}
    assert after.labelled(name, "topic") == {"": 3}


def test_many_partitions_are_read_with_pauses() -> None:
    with scraped_node() as node, RawClient(node.port) as client:
        create(client, "many", 5 * REPLICAS_PER_SLICE)
        broker = node.node.broker
        assert broker is not None
        tables = PartitionTables(broker, 10_000)
        found = node.call(lambda: list(tables.tables()))
    assert found.count(None) >= 5


# What is written about metrics


def test_every_metric_of_a_scrape_is_documented(scrape: Scrape) -> None:
    others = scrape.samples.keys() - documented_names()
    assert all(name.startswith(("process_", "python_")) for name in others)


def test_static_labels_cannot_be_taken_for_others(scrape: Scrape) -> None:
    used = {name for series in scrape.samples.values() for labels in series for name, _ in labels}
    declared = {label for _, tables in SECTIONS for table in tables for label in table.labels}
    renamed = {
        label
        for _, tables in SECTIONS
        for table in tables
        for measure in table.measures
        for name in measure.names.values()
        for label in name.labels or ()
    }
    assert used | declared | renamed <= METRIC_LABELS
    assert METRIC_DIALECTS == DIALECTS


def expressions(node: object) -> Iterator[str]:
    """Every PromQL query in a Grafana dashboard, its variables included."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "query") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for each in node:
            yield from expressions(each)


SELECTOR = re.compile(r"([a-z_][a-zA-Z0-9_]*)\{([^}]*)\}")
LABEL = re.compile(r"([a-zA-Z_]+)\s*(?:=~|!=|=)")
GROUPING = re.compile(r"\bby \(([^)]*)\)")
LOOKED_UP = re.compile(r"label_values\(([a-z_]+)(?:\{[^}]*\})?, (\w+)\)")
ADDED_BY_PROMETHEUS = {"instance"}


def test_the_dashboard_asks_only_for_what_there_is(scrape: Scrape) -> None:
    dashboard = json.loads((REPOSITORY / "docker" / "monitoring" / "kpybroker.json").read_text(encoding="utf-8"))
    queries = [query for query in expressions(dashboard) if "(" in query or "{" in query]
    assert len(queries) > 30
    for query in queries:
        asked = [(name, set(LABEL.findall(labels))) for name, labels in SELECTOR.findall(query)]
        asked += [(name, {label}) for name, label in LOOKED_UP.findall(query)]
        assert asked, query
        for name, labels in asked:
            assert name in scrape.samples, query
            there = {label for labels_of in scrape.samples[name] for label, _ in labels_of}
            grouped = {label.strip() for group in GROUPING.findall(query) for label in group.split(",")}
            assert labels | grouped <= there | ADDED_BY_PROMETHEUS, query


def test_legends_of_dashboards_use_existing_labels(scrape: Scrape) -> None:
    text = (REPOSITORY / "docker" / "monitoring" / "kpybroker.json").read_text(encoding="utf-8")
    used = {name for series in scrape.samples.values() for labels in series for name, _ in labels}
    assert set(re.findall(r"\{\{(\w+)\}\}", text)) <= used | ADDED_BY_PROMETHEUS


def test_requests_for_metadata_are_counted_by_client(node: ScrapedNode) -> None:
    before = node.scrape().labelled("kpybroker_client_metadata_requests_total", "client_id").get("asks", 0)
    with RawClient(node.port, client_id="asks") as client:
        for _ in range(3):
            client.call(MetadataRequest(topics=[]), 12)
    assert node.scrape().labelled("kpybroker_client_metadata_requests_total", "client_id")["asks"] - before == 3
