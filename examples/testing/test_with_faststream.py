"""FastStream: the application itself against a broker, not against a stand-in for one."""

import asyncio

from faststream import FastStream
from faststream.kafka import KafkaBroker

from kpybroker.testing import Broker


def application(bootstrap_servers: str) -> FastStream:
    """The program under test: greets everybody who turns up."""
    broker = KafkaBroker(bootstrap_servers)

    @broker.subscriber("names", group_id="greeter", auto_offset_reset="earliest")
    @broker.publisher("greetings")
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    return FastStream(broker)


def test_everybody_is_greeted() -> None:
    async def scenario() -> None:
        async with Broker() as kafka:
            for topic in ("names", "greetings"):
                await kafka.create_topic(topic)
            await kafka.produce("names", "Ada", "Grace")
            app = application(kafka.bootstrap_servers)
            await app.start()
            try:
                await kafka.assert_records("greetings", ["Hello, Ada!", "Hello, Grace!"], timeout_s=20)
            finally:
                await app.stop()

    asyncio.run(scenario())
