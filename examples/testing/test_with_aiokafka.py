"""aiokafka: everything in one event loop, the broker too."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kpybroker.testing import Broker


async def count_words(bootstrap_servers: str, source: str, stop_after: int) -> dict[str, int]:
    """The program under test."""
    consumer = AIOKafkaConsumer(
        source, bootstrap_servers=bootstrap_servers, group_id="words", auto_offset_reset="earliest"
    )
    counts: dict[str, int] = {}
    await consumer.start()
    try:
        async for message in consumer:
            for word in (message.value or b"").decode().split():
                counts[word] = counts.get(word, 0) + 1
            stop_after -= 1
            if not stop_after:
                await consumer.commit()
                return counts
    finally:
        await consumer.stop()
    return counts


def test_words_are_counted() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            await broker.create_topic("lines")
            producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers)
            async with producer:
                for line in ("to be or", "not to be"):
                    await producer.send_and_wait("lines", line.encode())
            counts = await asyncio.wait_for(count_words(broker.bootstrap_servers, "lines", stop_after=2), 20)
            assert counts == {"to": 2, "be": 2, "or": 1, "not": 1}
            await broker.assert_committed("words", {("lines", 0): 2})

    asyncio.run(scenario())


def test_a_day_later_the_lines_are_gone() -> None:
    async def scenario() -> None:
        async with Broker() as broker:
            await broker.create_topic("lines", config={"retention.ms": 3_600_000})
            await broker.produce("lines", "too old to be counted")
            await broker.clock.advance(days=1)
            assert await broker.records("lines") == []

    asyncio.run(scenario())
