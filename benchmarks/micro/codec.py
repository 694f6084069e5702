"""Decoding and encoding the requests and responses of the hot path."""

from collections.abc import Iterator
from time import time

from benchmarks.micro.clock import Operation
from benchmarks.raw import frames
from kpywire.codec import decode, decoder, encode, encoder
from kpywire.header import decode_request_header
from kpywire.messages import fetch, produce

SIZE_PREFIX_BYTES = 4
TOPIC_ID = bytes(range(16))
VERSIONS = {"Produce": (9, 13), "Fetch": (12, 18)}
MANY = 1000


def operations() -> Iterator[Operation]:
    frame = frames.produce("a-topic", [0], frames.batch_of_bytes(213, int(time() * 1000))).frame
    header = memoryview(frame)[SIZE_PREFIX_BYTES:]
    yield Operation("request header, decode", lambda: decode_request_header(header, 0))
    for version in VERSIONS["Produce"]:
        for partitions in (1, 50):
            yield from produce_operations(version, partitions)
    for version in VERSIONS["Fetch"]:
        for partitions in (1, MANY):
            yield from fetch_operations(version, partitions)


def produce_operations(version: int, partitions: int) -> Iterator[Operation]:
    name, topic_id = ("a-topic", b"\0" * 16) if version < 13 else ("", TOPIC_ID)
    batch = frames.batch_of_bytes(213, int(time() * 1000))
    data = [produce.PartitionProduceData(index=i, records=batch) for i in range(partitions)]
    topic = produce.TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
    request = produce.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[topic])
    body = memoryview(encode(request, version))
    read = decoder(produce.ProduceRequest, version)
    yield Operation(f"Produce v{version} request, decode", lambda: read(body, 0), per=partitions, unit="partition")

    write = encoder(produce.ProduceResponse, version)

    def answer() -> None:
        answered = [produce.PartitionProduceResponse(index=i, error_code=0, base_offset=i) for i in range(partitions)]
        of_topic = produce.TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=answered)
        write(produce.ProduceResponse(responses=[of_topic]), [])

    yield Operation(f"Produce v{version} response, build and encode", answer, per=partitions, unit="partition")


def fetch_operations(version: int, partitions: int) -> Iterator[Operation]:
    name, topic_id = ("a-topic", b"\0" * 16) if version < 13 else ("", TOPIC_ID)
    asked = [fetch.FetchPartition(partition=i, fetch_offset=i, partition_max_bytes=1 << 20) for i in range(partitions)]
    topic = fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=asked)
    request = fetch.FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])
    body = memoryview(encode(request, version))
    assert len(decode(fetch.FetchRequest, version, body).topics[0].partitions) == partitions
    read = decoder(fetch.FetchRequest, version)
    yield Operation(f"Fetch v{version} request, decode", lambda: read(body, 0), per=partitions, unit="partition")

    write = encoder(fetch.FetchResponse, version)

    def answer() -> None:
        answered = [
            fetch.PartitionData(
                partition_index=i, error_code=0, high_watermark=i, aborted_transactions=None, records=b""
            )
            for i in range(partitions)
        ]
        of_topic = fetch.FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=answered)
        write(fetch.FetchResponse(throttle_time_ms=0, responses=[of_topic]), [])

    yield Operation(f"Fetch v{version} response, build and encode", answer, per=partitions, unit="partition")
