"""The metrics of share groups: a member reads on a node that is scraped."""

from collections.abc import Iterator

import pytest
from scraped_node import Scrape, ScrapedNode, scraped_node

from kpybroker.client.client import Client
from kpybroker.client.share_member import ACKNOWLEDGEMENTS, ShareGroupReader
from kpybroker.requests.serving.share.metrics import GroupReads, ShareMetrics
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.raw_client import RawClient
from support.raw_requests import SET, append, create, incremental_alteration
from support.waiting import eventually

GROUP_RESOURCE = 32
GROUP, TOPIC = "mail", "letters"
OF_GROUP = "kafka_server_sharegroupmetrics_{}".format
OF_PARTITION = "kafka_server_sharepartitionmetrics_{}".format
RATIO, ACQUIRE, SIZE = (
    OF_GROUP("requesttopicpartitionsfetchratio"),
    OF_GROUP("topicpartitionsacquiretimems"),
    OF_PARTITION("inflightbatchmessagecount"),
)


@pytest.fixture
def node() -> Iterator[ScrapedNode]:
    """A node with two batches in one of two partitions."""
    with scraped_node(share_coordinator_state_topic_num_partitions="1") as running, RawClient(running.port) as raw:
        create(raw, TOPIC, 2)
        append(raw, TOPIC, 1, 2, 3)
        append(raw, TOPIC, 4)
        config = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[config])
        raw.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        yield running


def read(node: ScrapedNode, answer: str = "accept") -> ShareGroupReader:
    """Accept or reject all records, and read once more, without result."""
    member = ShareGroupReader(Client(f"127.0.0.1:{node.port}", 20.0), GROUP, [TOPIC], ACKNOWLEDGEMENTS[answer])
    offsets: set[int] = set()
    while len(offsets) < 4:
        member.keep_up()
        for found in member.poll():
            offsets.add(found.record.offset)
            member.finish(found.spot, found.record.offset + 1)
    member.keep_up()
    list(member.poll())
    return member


def test_dead_letters_are_counted_by_group_whether_they_were_written_or_given_up(node: ScrapedNode) -> None:
    with RawClient(node.port) as raw:
        named = [("errors.deadletterqueue.topic.name", SET, "dlq.letters")]
        raw.call(incremental_alteration((GROUP_RESOURCE, GROUP, named)), 1)
        create(raw, "dlq.letters", errors_deadletterqueue_group_enable="true")
    member = read(node, "reject")
    try:
        counts = lambda: node.scrape().value(OF_GROUP("deadletterqueuerecordcount_total"), group=GROUP)  # noqa: E731
        eventually(lambda: counts() == 4, "four dead letters")
        scrape = node.scrape()
        assert scrape.value(OF_GROUP("deadletterqueuetotalproducerequests_total"), group=GROUP) >= 1
        assert scrape.value(OF_GROUP("deadletterqueuefailedproducerequests_total"), group=GROUP) == 0
        assert scrape.value("kpybroker_share_dead_letters_given_up_total", group=GROUP) == 0
    finally:
        member.leave()
        member.client.close()


def test_the_reads_of_a_share_group_are_seen_under_kafkas_names_as_long_as_it_reads(node: ScrapedNode) -> None:
    member = read(node)
    try:
        scrape = node.scrape()
        assert scrape.labelled(OF_GROUP("recordacknowledgements_total"), "ackType") == {
            "Accept": 4,
            "Release": 0,
            "Reject": 0,
            "Renew": 0,
        }
        fetches = scrape.value(f"{RATIO}_count", group=GROUP)
        assert fetches >= 2
        assert scrape.value(f"{ACQUIRE}_count", group=GROUP) >= fetches
        assert quantile(scrape, RATIO) == 100
        assert 0 <= quantile(scrape, ACQUIRE) < 60_000
        assert scrape.value(f"{SIZE}_count", group=GROUP) == 1, "both batches of the log are acquired as one"
        assert 2.8 < quantile(scrape, SIZE, "0.99") < 4.3, "sizes are kept by half octaves"
        place = {"group": GROUP, "topic": TOPIC, "partition": "0"}
        assert scrape.value(OF_PARTITION("acquisitionlocktimeout_total"), **place) == 0
        assert scrape.value("kafka_server_delayedsharefetchmetrics_expires_total") >= 1
    finally:
        member.leave()
        member.client.close()
    after = node.scrape()
    assert not after.samples.get(RATIO)
    assert not after.samples.get(f"{SIZE}_count")


def quantile(scrape: Scrape, name: str, label: str = "0.50") -> float:
    return scrape.value(name, group=GROUP, quantile=label)


def test_a_group_that_is_forgotten_begins_again() -> None:
    metrics = ShareMetrics()
    metrics.of("g").answered(1, 4)
    metrics.of("g").answered(0, 3)
    assert [percent for percent, count in enumerate(metrics.of("g").fetch_ratios) if count] == [0, 25]
    metrics.forget("g")
    assert metrics.of("g").fetches == 0


def test_a_batch_of_any_size_and_a_wait_of_any_length_are_counted() -> None:
    reads = GroupReads()
    for size in (0, 1, 2**63):
        reads.acquired(size)
        reads.could_acquire(float(size))
    assert (sum(reads.batch_sizes), sum(reads.acquire_times), reads.batches, reads.looks) == (3, 3, 3, 3)
