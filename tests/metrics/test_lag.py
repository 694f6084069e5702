"""How far groups and readers are behind, in records and in seconds."""

from collections.abc import Iterator

import pytest
from scraped_node import NEW_SESSION, Scrape, ScrapedNode, commit, fetch_of, scraped_node

from kpybroker.monitoring.metrics.readers import IDLE_MS, UNNAMED, name_of
from kpywire import error_codes
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from support.group_requests import beating, coordinator_ready
from support.raw_client import RawClient
from support.raw_requests import append, create
from support.waiting import eventually

HOUR_MS = 3_600_000
MINUTE_S = 60
SPARK = "consumer-spark-kafka-source-5f1e-7-executor-3"


@pytest.fixture
def node() -> Iterator[ScrapedNode]:
    with scraped_node(kpybroker_metrics_dialects="kafka_exporter,kafka_lag_exporter,native") as running:
        yield running


@pytest.fixture
def client(node: ScrapedNode) -> Iterator[RawClient]:
    with RawClient(node.port, client_id="worker") as connected:
        yield connected


def now_ms(node: ScrapedNode) -> int:
    return int(node.scheduler.now_ms())


def lag_of(scrape: Scrape, group: str, topic: str = "t") -> tuple[float, float]:
    """(records, seconds) of partition 0."""
    where = {"consumergroup": group, "topic": topic, "partition": "0"}
    return (
        scrape.value("kafka_consumergroup_lag", **where),
        scrape.value("kpybroker_consumergroup_lag_seconds", **where),
    )


def groups_in(scrape: Scrape) -> set[str]:
    return set(scrape.labelled("kafka_consumergroup_members", "consumergroup"))


def test_groups_of_the_consumer_protocol_are_counted_by_their_states() -> None:
    with scraped_node(kpybroker_metrics_dialects="strimzi,kafka_exporter,native") as node, RawClient(node.port) as raw:
        create(raw, "t")
        coordinator_ready(raw, "classic")
        assert raw.call(beating("g", "m", 0, topics=["t"]), 1).error_code == error_codes.NONE
        assert raw.call(beating("h", "m", 0, topics=["t"]), 1).error_code == error_codes.NONE
        assert raw.call(beating("h", "m", -1), 1).error_code == error_codes.NONE
        scrape = node.scrape()
        count = "kafka_server_groupcoordinatormetrics_group_count"
        assert [scrape.value(count, protocol=each) for each in ("classic", "consumer")] == [0, 2]
        of_state = "kafka_server_groupcoordinatormetrics_consumer_group_count"
        assert {each: scrape.value(of_state, state=each) for each in ("empty", "stable", "reconciling")} == {
            "empty": 1,
            "stable": 1,
            "reconciling": 0,
        }
        assert scrape.value("kafka_consumergroup_members", consumergroup="g") == 1
        assert scrape.value("kpybroker_consumergroup_generation", consumergroup="g") == 2
        rebalances = "kafka_server_groupcoordinatormetrics_{}_group_rebalance_count"
        counted = {kind: scrape.value(rebalances.format(kind)) for kind in ("consumer", "share", "streams")}
        assert counted == {"consumer": 2, "share": 0, "streams": 0}, "Kafka does not count a member that leaves"


def test_a_group_is_behind_by_the_records_and_by_the_age_of_the_first(node: ScrapedNode, client: RawClient) -> None:
    create(client, "t")
    made_ms = now_ms(node) - HOUR_MS
    for at in range(3):
        append(client, "t", made_ms + at * MINUTE_S * 1000)
    commit(client, "g", "t", 1)
    records, seconds = lag_of(node.scrape(), "g")
    assert records == 2
    assert seconds >= 59 * MINUTE_S
    node.advance(HOUR_MS)
    later = lag_of(node.scrape(), "g")
    assert later[0] == 2
    assert later[1] - seconds >= HOUR_MS / 1000, "while nothing is read, the lag grows with the time"
    commit(client, "g", "t", 2)
    nearer = lag_of(node.scrape(), "g")
    assert nearer[0] == 1
    assert nearer[1] <= later[1] - 59
    commit(client, "g", "t", 3)
    assert lag_of(node.scrape(), "g") == (0, 0)


def test_a_commit_beyond_the_end_is_no_lag(node: ScrapedNode, client: RawClient) -> None:
    create(client, "t")
    commit(client, "g", "t", 7)
    assert lag_of(node.scrape(), "g") == (0, 0)


def test_a_commit_below_the_log_waits_for_its_first_record(node: ScrapedNode, client: RawClient) -> None:
    create(client, "t")
    append(client, "t", now_ms(node) - 2 * HOUR_MS)
    append(client, "t", now_ms(node) - HOUR_MS)
    commit(client, "g", "t", 0)
    delete_records(client, "t", 1)
    records, seconds = lag_of(node.scrape(), "g")
    assert records == 2
    assert HOUR_MS / 1000 <= seconds < 2 * HOUR_MS / 1000


def delete_records(client: RawClient, topic: str, before: int) -> None:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    named = DeleteRecordsTopic(name=topic, partitions=[partition])
    client.call(DeleteRecordsRequest(topics=[named], timeout_ms=10_000), 2)


def test_the_lag_follows_the_first_record_that_is_left_while_a_group_stands_still(
    node: ScrapedNode, client: RawClient
) -> None:
    create(client, "t")
    for hours in (9, 5):
        append(client, "t", now_ms(node) - hours * HOUR_MS)
    commit(client, "g", "t", 0)
    assert lag_of(node.scrape(), "g")[1] >= 9 * HOUR_MS / 1000
    delete_records(client, "t", 1)
    assert 5 * HOUR_MS / 1000 <= lag_of(node.scrape(), "g")[1] < 6 * HOUR_MS / 1000
    delete_records(client, "t", 2)
    assert "kpybroker_consumergroup_lag_seconds" not in node.scrape().samples
    append(client, "t", now_ms(node) - 2 * HOUR_MS)
    assert 2 * HOUR_MS / 1000 <= lag_of(node.scrape(), "g")[1] < 3 * HOUR_MS / 1000


def test_appended_by_the_brokers_time_the_append_counts(node: ScrapedNode, client: RawClient) -> None:
    create(client, "t", message_timestamp_type="LogAppendTime")
    append(client, "t", 1)
    commit(client, "g", "t", 0)
    node.advance(HOUR_MS)
    _, seconds = lag_of(node.scrape(), "g")
    assert HOUR_MS / 1000 <= seconds < 2 * HOUR_MS / 1000


def test_records_without_a_time_have_a_lag_in_records_alone(node: ScrapedNode, client: RawClient) -> None:
    create(client, "t")
    append(client, "t", -1)
    commit(client, "g", "t", 0)
    scrape = node.scrape()
    assert scrape.value("kafka_consumergroup_lag", consumergroup="g", topic="t", partition="0") == 1
    assert "kpybroker_consumergroup_lag_seconds" not in scrape.samples


def test_lags_are_summed_by_topic_with_the_largest(node: ScrapedNode, client: RawClient) -> None:
    for topic, count in (("t", 3), ("u", 1)):
        create(client, topic)
        append(client, topic, *[now_ms(node) - HOUR_MS] * count)
        commit(client, "g", topic, 0)
    scrape = node.scrape()
    assert scrape.labelled("kafka_consumergroup_lag_sum", "topic") == {"t": 3, "u": 1}
    assert scrape.labelled("kafka_consumergroup_group_max_lag", "group") == {"g": 3}
    assert scrape.labelled("kafka_consumergroup_group_max_lag_seconds", "group")["g"] >= HOUR_MS / 1000


@pytest.mark.parametrize("session_epoch", [NEW_SESSION, -1], ids=["in a fetch session", "without a session"])
def test_a_reader_without_a_group_is_known_by_its_client_id(node: ScrapedNode, session_epoch: int) -> None:
    with RawClient(node.port, client_id=SPARK) as spark:
        create(spark, "t")
        append(spark, "t", *[now_ms(node) - HOUR_MS] * 3)
        spark.call(fetch_of("t", 1, session_epoch=session_epoch, max_bytes=1), 12)
        scrape = node.scrape()
        records, seconds = lag_of(scrape, "spark-kafka-source-5f1e-7-executor")
    assert records == 2
    assert seconds >= HOUR_MS / 1000
    assert scrape.labelled("kpybroker_reader_info", "client_id") == {SPARK: 1}


@pytest.mark.parametrize("session_epoch", [NEW_SESSION, -1], ids=["in a fetch session", "without a session"])
def test_a_reader_has_what_was_sent_to_it(node: ScrapedNode, client: RawClient, session_epoch: int) -> None:
    create(client, "t", segment_bytes=str(1 << 20))
    append(client, "t", 1, 2, 3)
    append(client, "t", 4)
    client.call(fetch_of("t", 0, session_epoch=session_epoch), 12)
    assert lag_of(node.scrape(), "worker") == (0, 0)
    append(client, "t", now_ms(node) - HOUR_MS, now_ms(node))
    records, seconds = lag_of(node.scrape(), "worker")
    assert records == 2
    assert seconds >= HOUR_MS / 1000


def test_the_furthest_position_of_a_readers_connections_counts(node: ScrapedNode) -> None:
    with RawClient(node.port, client_id="consumer-q-1") as one, RawClient(node.port, client_id="consumer-q-2") as two:
        create(one, "t")
        append(one, "t", *[1] * 5)
        two.call(fetch_of("t", 4, max_bytes=1), 12)
        one.call(fetch_of("t", 2, session_epoch=NEW_SESSION, max_bytes=1), 12)
        scrape = node.scrape()
    assert lag_of(scrape, "q")[0] == 1
    assert scrape.labelled("kafka_consumergroup_members", "consumergroup") == {"q": 2}


def test_a_reader_that_commits_is_listed_as_its_group_alone(node: ScrapedNode) -> None:
    with RawClient(node.port, client_id="consumer-g-1") as member:
        create(member, "t")
        append(member, "t", 1, 2, 3)
        member.call(fetch_of("t", 3), 12)
        commit(member, "g", "t", 1)
        scrape = node.scrape()
    assert groups_in(scrape) == {"g"}
    assert lag_of(scrape, "g")[0] == 2, "what is committed counts, not what was fetched"


def test_lag_of_departed_groups_and_readers_is_removed(node: ScrapedNode, client: RawClient) -> None:
    create(client, "t")
    append(client, "t", 1)
    client.call(fetch_of("t", 0, session_epoch=NEW_SESSION), 12)
    with RawClient(node.port, client_id="visitor") as visitor:
        visitor.call(fetch_of("t", 0), 12)
        assert groups_in(node.scrape()) == {"worker", "visitor"}
    eventually(lambda: groups_in(node.scrape()) == {"worker"}, "the visitor is gone")
    node.advance(IDLE_MS + 1000)
    assert groups_in(node.scrape()) == set()


def test_positions_beyond_the_limit_are_counted() -> None:
    with scraped_node(kpybroker_metrics_max_partitions="1") as node, RawClient(node.port) as client:
        create(client, "t")
        for group in ("a", "b", "c"):
            commit(client, group, "t", 0)
        scrape = node.scrape()
    assert len(scrape.samples["kafka_consumergroup_lag"]) == 1
    assert scrape.value("kpybroker_positions_left_out") == 2
    assert scrape.value("kafka_coordinator_group_groupmetadatamanager_numoffsets") == 3


@pytest.mark.parametrize(
    ("client_id", "name"),
    [
        ("my-app", "my-app"),
        ("consumer-my-group-12", "my-group"),
        ("consumer-1", "consumer-1"),
        ("", UNNAMED),
        (None, UNNAMED),
        ("x" * 1000, "x" * 249),
    ],
)
def test_a_reader_is_called_after_its_client_id(client_id: str | None, name: str) -> None:
    assert name_of(client_id) == name
