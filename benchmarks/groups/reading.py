"""How fast one member of a group reads with the classic protocol and with the consumer protocol (KIP-848).

    python -m benchmarks.groups.reading [--records 3000000] [--rounds 5] [--kpybroker FILE]

A topic is read from its start by a member of confluent-kafka in a group of its own, with one protocol and then with the
other, in alternating rounds and order. The time begins with the first record. The client's queue is as long as the
topic, since librdkafka stops fetching for a second when it is full. Prints records a second, and the ratio of the
consumer protocol to the classic one.
"""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import click
from confluent_kafka import Consumer

from benchmarks.clients import running
from benchmarks.rows.shape import Shape
from benchmarks.sides import Kpybroker, Side

PARTITIONS: Final = 6
RECORD_BYTES: Final = 100
PROTOCOLS: Final = ("classic", "consumer")


def rate(bootstrap: str, topic: str, group: str, protocol: str, count: int) -> float:
    """The records a second at which a member of a new group reads ``count`` records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    try:
        seen, began_s = 0, 0.0
        while seen < count:
            messages = consumer.consume(10_000, timeout=1)
            if messages and not began_s:
                began_s = time.perf_counter()
                count -= len(messages)
            else:
                seen += len(messages)
        return seen / (time.perf_counter() - began_s)
    finally:
        consumer.close()


@click.command()
@click.option("--records", default=3_000_000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--kpybroker", type=click.Path(exists=True, path_type=Path), help="The command of another environment.")
def main(records: int, rounds: int, kpybroker: Path | None) -> None:
    if kpybroker is not None:
        Kpybroker.path = kpybroker.absolute()
    with tempfile.TemporaryDirectory() as directory, Side("A", "kpybroker", Path(directory)) as side:
        topic = side.create_topic("reading", PARTITIONS)
        shape = Shape(partitions=PARTITIONS, record_bytes=RECORD_BYTES)
        running.confluent_fill(side.bootstrap_servers, topic, records, shape)
        found: dict[str, list[float]] = {protocol: [] for protocol in PROTOCOLS}
        for number in range(rounds + 1):
            for protocol in PROTOCOLS[:: -1 if number % 2 else 1]:
                per_s = rate(side.bootstrap_servers, topic, f"{protocol}-{number}", protocol, records)
                print(f"{'warm' if number == 0 else number:>4}  {protocol:8}  {per_s:12,.0f} records/s")
                if number:
                    found[protocol].append(per_s)
    classic, consumer = (found[protocol] for protocol in PROTOCOLS)
    ratios = [new / old for old, new in zip(classic, consumer, strict=True)]
    print(f"consumer to classic: {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


if __name__ == "__main__":
    main()
