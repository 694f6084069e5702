"""The metrics of tiered storage: their values, their names, and that a node without it has none."""

import pytest
from scraped_node import Scrape, scraped_node

from kpybroker.hosts.remote_log.figures import COUNTED, ThrottleTimes
from kpybroker.machines.remote_log.copying import CopyLag, Wait
from kpybroker.monitoring.metrics.table import COUNTER, NATIVE, STRIMZI, MetricsWriter
from kpybroker.monitoring.metrics.tiering import LIST_OFFSETS, NODE, TOPIC_COUNTS, TOPIC_SIZES, WAITS, tables
from support.tier_states import FixedTiers, tier_state

TABLES = (TOPIC_COUNTS, TOPIC_SIZES, WAITS, NODE, LIST_OFFSETS)
TOPIC = "kafka_server_brokertopicmetrics_"


def scraped(view: FixedTiers) -> Scrape:
    writer = MetricsWriter((STRIMZI, NATIVE), {})
    made = (table for table in tables(view) if table is not None)
    return Scrape("".join(piece for table in made for piece in writer.pieces(table)))


def test_a_topic_and_the_sum_have_a_series_of_each_counter():
    view = FixedTiers()
    for number, name in enumerate(COUNTED, 1):
        setattr(view.figures.of("orders"), name, number)
    view.figures.of("invoices").copied_bytes = 100
    found = scraped(view)
    assert found.labelled(f"{TOPIC}remotecopybytes_total", "topic") == {"": 103, "orders": 3, "invoices": 100}
    assert found.labelled(f"{TOPIC}remotefetchrequests_total", "topic") == {"": 10, "orders": 10, "invoices": 0}
    assert found.labelled(f"{TOPIC}buildremotelogauxstateerrors_total", "topic")["orders"] == 1


@pytest.mark.parametrize(
    ("counter", "name"),
    [
        ("aux_state_errors", "BuildRemoteLogAuxStateErrorsPerSec"),
        ("aux_states", "BuildRemoteLogAuxStateRequestsPerSec"),
        ("copied_bytes", "RemoteCopyBytesPerSec"),
        ("copies", "RemoteCopyRequestsPerSec"),
        ("copy_errors", "RemoteCopyErrorsPerSec"),
        ("delete_errors", "RemoteDeleteErrorsPerSec"),
        ("deletes", "RemoteDeleteRequestsPerSec"),
        ("fetch_errors", "RemoteFetchErrorsPerSec"),
        ("fetched_bytes", "RemoteFetchBytesPerSec"),
        ("fetches", "RemoteFetchRequestsPerSec"),
    ],
)
def test_each_counter_has_the_name_of_kafka(counter: str, name: str):
    measure = TOPIC_COUNTS.measures[COUNTED.index(counter)]
    assert (measure.kind, measure.source) == (COUNTER, f"kafka.server:type=BrokerTopicMetrics,name={name}")


def test_the_sum_keeps_the_counters_of_deleted_topics():
    view = FixedTiers()
    view.figures.of("orders").deletes = 7
    view.figures.forget("orders")
    view.figures.forget("orders")
    assert scraped(view).labelled(f"{TOPIC}remotedeleterequests_total", "topic") == {"": 7}


def test_lags_and_sizes_are_added_over_the_partitions_of_a_topic():
    view = FixedTiers(
        tier_state("orders", 0, copy_lag=CopyLag(10, 1), remote_bytes=500, segments=5, wait=Wait.FAILED),
        tier_state("orders", 1, copy_lag=CopyLag(30, 2), delete_lag=CopyLag(7, 1), size_computation_ms=4),
        tier_state("invoices", 0, copy_lag=CopyLag(5, 1), unfinished=2, wait=None),
    )
    found = scraped(view)
    assert found.labelled(f"{TOPIC}remotecopylagbytes", "topic") == {"": 45, "orders": 40, "invoices": 5}
    assert found.labelled(f"{TOPIC}remotecopylagsegments", "topic") == {"": 4, "orders": 3, "invoices": 1}
    assert found.labelled(f"{TOPIC}remotedeletelagbytes", "topic")["orders"] == 7
    assert found.labelled(f"{TOPIC}remotelogsizebytes", "topic")[""] == 500
    assert found.labelled(f"{TOPIC}remotelogmetadatacount", "topic")[""] == 5
    assert found.labelled(f"{TOPIC}remotelogsizecomputationtime", "topic")["orders"] == 4
    waits = found.labelled("kpybroker_remote_copy_partitions", "state")
    assert {name: count for name, count in waits.items() if count} == {"FAILED": 1, "NOTHING": 1}
    assert found.value("kpybroker_remote_copies_unfinished") == 2


def test_pools_expired_waits_and_throttle_times_are_shown():
    view = FixedTiers(store_error="away")
    figures = view.figures
    figures.readers.busy, figures.readers.waiting = 4, 9
    figures.expired_fetches = 3
    figures.expired_list_offsets = {"a-b-0": 2}
    figures.read_ms.add(250.0)
    view.throttled = ThrottleTimes(1.5, 3, 20.0, 40)
    found = scraped(view)
    pool = "kafka_log_remote_remotestoragethreadpool_remotelogreader"
    assert found.value(f"{pool}taskqueuesize") == 9
    assert found.value(f"{pool}avgidle_percent") == pytest.approx(0.6)
    assert found.value("kafka_log_remote_remotelogmanager_remotelogmanagertasksavgidle_percent") == 1
    assert found.value("kafka_server_delayedremotefetchmetrics_expires_total") == 3
    assert found.value("kpybroker_remote_read_seconds_total") == 0.25
    assert found.labelled("kafka_server_delayedremotelistoffsetsmetrics_expires_total", "topic") == {"a-b": 2}
    throttle = "kafka_server_remotelogmanager_remote_{}_throttle_time_{}"
    assert found.value(throttle.format("copy", "avg")) == 1.5
    assert found.value(throttle.format("fetch", "max")) == 40
    assert found.value("kpybroker_remote_store_failing") == 1


def test_only_a_node_with_tiered_storage_shows_them():
    with scraped_node() as node:
        shown = {name.text for each in TABLES for measure in each.measures for name in measure.names.values()}
        assert not shown & node.scrape().samples.keys()
    with scraped_node() as node:
        node.call(lambda: setattr(node.node.broker, "remote_log", FixedTiers(tier_state("orders"))))
        assert node.scrape().labelled(f"{TOPIC}remotelogsizebytes", "topic") == {"": 0, "orders": 0}
