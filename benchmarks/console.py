"""Measures how clients notice a search of a large log in the console: ``python -m benchmarks.console --gib 10``.

A client asks for the offset of a partition again and again, on a connection of its own: without a search and during
one, in turn. Invariant: both are measured in the same rounds, so a busy machine slows both.
"""

import argparse
import json
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from oracle import free_port
from support.raw_client import RawClient
from support.targets import KpyBroker

TOPIC = "large"
BATCH_RECORDS = 900
VALUE_BYTES = 1100
ROUND_S = 2.0
ROUNDS = 4
SEARCH = {"topic": TOPIC, "text": "nowhere to be found"}


class Target(KpyBroker):
    """A broker with a second port."""

    def __init__(self, directory: Path) -> None:
        super().__init__({"message.max.bytes": "4000000"}, directory=directory)
        self.http_port = free_port()

    def command(self) -> Any:
        command = list(super().command())
        command[command.index("--http") + 1] = f"127.0.0.1:{self.http_port}"
        return command


def fill(client: RawClient, gib: float) -> int:
    """Produce this much. Return the number of bytes."""
    wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5)
    now_ms = int(time.time() * 1000)
    records = [
        Record(timestamp=now_ms, key=b"k%d" % n, value=b"%08d" % n * (VALUE_BYTES // 8)) for n in range(BATCH_RECORDS)
    ]
    batch = build_batch(records)
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
    sent = 0
    while sent < gib * (1 << 30):
        (answer,) = client.call(request, 9).responses[0].partition_responses
        if answer.error_code:
            time.sleep(0.1)
            continue
        sent += len(batch)
    return sent


def latencies_ms(client: RawClient, seconds: float) -> list[float]:
    """How long requests take, one after the other."""
    spot = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=TOPIC, partitions=[spot])]
    )
    found = []
    until_s = time.perf_counter() + seconds
    while time.perf_counter() < until_s:
        began_s = time.perf_counter()
        client.call(request, 5)
        found.append((time.perf_counter() - began_s) * 1000)
        time.sleep(0.001)
    return found


def of_console(port: int, path: str, body: dict[str, str] | None = None) -> Any:
    """An answer of the console."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def quantile(values: list[float], share: float) -> float:
    """The value below which this share lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=10.0)
    gib: float = parser.parse_args().gib
    with TemporaryDirectory() as directory, Target(Path(directory)) as broker, RawClient(broker.port) as client:
        size = fill(client, gib)
        of_console(broker.http_port, "/api/cluster")
        alone: list[float] = []
        during: list[float] = []
        speeds: list[float] = []
        for _ in range(ROUNDS):
            alone += latencies_ms(client, ROUND_S)
            see = of_console(broker.http_port, "/api/searches", {"topic": TOPIC, "text": "nowhere to be found"})["see"]
            during += latencies_ms(client, ROUND_S)
            found = of_console(broker.http_port, f"/api{see}")
            speeds.append(found["read_bytes"] / max(found["passed_s"], 0.1))
            of_console(broker.http_port, f"/api{see}/cancel", {})
    print(f"{size / (1 << 30):.1f} GiB; searched at {sorted(speeds)[len(speeds) // 2] / (1 << 20):.0f} MiB/s")
    for name, values in (("alone", alone), ("during a search", during)):
        quantiles = ", ".join(f"p{share * 100:g} {quantile(values, share):.2f}" for share in (0.5, 0.99, 0.999))
        print(f"{name}: {len(values)} requests, ms: {quantiles}, most {max(values):.2f}")


if __name__ == "__main__":
    main()
