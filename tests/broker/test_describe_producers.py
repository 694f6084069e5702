"""DescribeProducers has an end, however often a short request names one partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_node import start
from test_node import create

from kpybroker.requests.handlers import describe_producers
from kpywire import error_codes
from kpywire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    node = start(tmp_path)
    try:
        with RawClient(node.port) as raw:
            yield raw
    finally:
        node.stop()


def write_as_new_producer(client: RawClient, topic: str) -> int:
    """Append one batch; the producer's id."""
    given = client.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 5)
    batch = build_batch(
        [Record(timestamp=1000, value=b"v")], producer_id=given.producer_id, producer_epoch=0, base_sequence=0
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    answer = client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 9)
    assert answer.responses[0].partition_responses[0].error_code == error_codes.NONE
    return int(given.producer_id)


def test_more_producers_than_fit_in_an_answer_are_refused(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_producers, "MOST_PRODUCERS", 4)
    create(client, "many")
    ids = {write_as_new_producer(client, "many") for _ in range(3)}
    request = DescribeProducersRequest(topics=[TopicRequest(name="many", partition_indexes=[0] * 5)])
    partitions = client.call(request, 0).topics[0].partitions
    for partition in partitions[:2]:
        assert {producer.producer_id for producer in partition.active_producers} == ids
    for partition in partitions[2:]:
        assert (partition.error_code, partition.active_producers) == (error_codes.INVALID_REQUEST, [])
        assert partition.error_message == "A request may not ask for more than 4 producers"
