"""Records of programs that end right after they sent them: whole requests are served although their client is gone."""

import socket
import subprocess
import sys

import pytest

from kpywire.messages.produce import ProduceRequest
from produce.test_protocol_produce import VERSION, batch, request
from support.clients import Confluent
from support.raw_client import RawClient, connect
from support.waiting import becomes

COUNT = 1_000

PROGRAMS = {
    "confluent-kafka": """
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": servers, "acks": 0, "batch.num.messages": 1, "queue.buffering.max.ms": 0})
for number in range(count):
    producer.produce(topic, str(number))
producer.flush()
""",
    "kafka-python": """
from kafka import KafkaProducer
producer = KafkaProducer(bootstrap_servers=servers, acks=0, batch_size=0, enable_idempotence=False)
for number in range(count):
    producer.send(topic, str(number).encode())
producer.flush()
producer.close()
""",
    "aiokafka": """
import asyncio
from aiokafka import AIOKafkaProducer
async def run():
    async with AIOKafkaProducer(bootstrap_servers=servers, acks=0, max_batch_size=100) as producer:
        for number in range(count):
            await producer.send(topic, str(number).encode())
        await producer.flush()
asyncio.run(run())
""",
}


@pytest.mark.parametrize("client", PROGRAMS)
def test_a_program_that_produces_without_acknowledgements_and_ends_loses_nothing(
    bootstrap_servers: str, topic: str, client: str
) -> None:
    head = f"servers, topic, count = {bootstrap_servers!r}, {topic!r}, {COUNT}"
    subprocess.run([sys.executable, "-c", head + PROGRAMS[client]], check=True, timeout=120)
    becomes(lambda: Confluent(bootstrap_servers).end_offsets(topic), [COUNT], within_s=30)


def frames(raw: RawClient, topic: str, acks: int) -> bytes:
    asked: ProduceRequest = request(topic, batch(b"x" * 100), acks=acks)
    return b"".join(raw.frame(asked, VERSION) for _ in range(COUNT))


def test_requests_without_acknowledgements_before_a_close_are_all_written(bootstrap_servers: str, topic: str) -> None:
    with connect(bootstrap_servers) as raw:
        raw.sock.sendall(frames(raw, topic, acks=0))
    becomes(lambda: Confluent(bootstrap_servers).end_offsets(topic), [COUNT], within_s=30)


@pytest.mark.parametrize("acks", [1, -1])
def test_requests_before_half_a_close_are_all_answered(bootstrap_servers: str, topic: str, acks: int) -> None:
    with connect(bootstrap_servers) as raw:
        raw.sock.sendall(frames(raw, topic, acks))
        raw.sock.shutdown(socket.SHUT_WR)
        answers = [raw.receive(0, VERSION).responses[0].partition_responses[0] for _ in range(COUNT)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, at) for at in range(COUNT)]
        assert raw.is_closed()
