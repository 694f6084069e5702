"""Unplanned failovers under transactions: a source that is killed at any moment, and a mirror of three brokers.

``python -m tests.mirror.unplanned_failovers 200`` does that many rounds, and prints what each has found. In every
fifth one a node of the mirror dies, too.
"""

import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import confluent_kafka
from click.testing import CliRunner

from kpybroker.cli.mirror import command
from kpybroker.client import topic_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.client.mirror_progress import ProgressReader
from kpybroker.client.mirror_requests import mirrored_topics, mirrors, set_mirrors
from kpybroker.client.reader import FetchSettings, RecordReader
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.mirror import Mirror
from support.clusters import Cluster, kpybroker_node
from support.targets import KpyBroker
from support.waiting import eventually

PRODUCERS = 3
TOPICS = {"orders": 3, "payments": 2}
LONGEST_S = 1.5
EVERY = 5
CALM = {
    "broker.session.timeout.ms": "15000",
    "controller.quorum.election.timeout.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "8000",
    "controller.quorum.request.timeout.ms": "8000",
}
"""So that a machine with much other work elects no leaders."""


class Outcome(NamedTuple):
    """The result of one round, in numbers."""

    committed: int
    """Transactions that are whole at the mirror afterwards."""
    lost: int
    """Transactions whose commit the source had acknowledged, and that are missing as a whole."""
    torn: int
    seen: int
    """Records that were read at the mirror before the failover."""
    gone: int
    """The number of them that are not there any more."""
    cut: int
    """Offsets that the failover cut off."""


class Writer(threading.Thread):
    """A transactional producer, until its broker is killed. Every transaction writes to two partitions or more."""

    def __init__(self, servers: str, name: str, spots: list[Spot], seed: int) -> None:
        super().__init__()
        self.transactions: dict[bytes, set[Spot]] = {}
        """The partitions of each transaction that may have been committed."""
        self.acknowledged: set[bytes] = set()
        self.ends = threading.Event()
        self._servers = servers
        self._name = name
        self._spots = spots
        self._random = random.Random(seed)

    def run(self) -> None:
        settings = {"bootstrap.servers": self._servers, "transactional.id": self._name, "log_level": 0, "linger.ms": 0}
        writer = confluent_kafka.Producer(settings)
        try:
            writer.init_transactions(60)
            number = 0
            while not self.ends.is_set():
                number += 1
                name = f"{self._name}-{number}".encode()
                spots = self._random.sample(self._spots, self._random.randint(2, len(self._spots)))
                self.transactions[name] = set(spots)
                writer.begin_transaction()
                for spot in spots:
                    writer.produce(spot.topic, name, partition=spot.partition)
                if self._random.random() < 0.1:
                    del self.transactions[name]
                    writer.abort_transaction(30)
                else:
                    writer.commit_transaction(30)
                    self.acknowledged.add(name)
                self.ends.wait(self._random.choice((0.01, 0.05, 0.1, 0.2)))
        except confluent_kafka.KafkaException:
            pass


class Looker(threading.Thread):
    """A reader of the mirror that reads uncommitted records, too: all that is shown."""

    def __init__(self, servers: str, spots: list[Spot]) -> None:
        super().__init__()
        self.seen: dict[tuple[Spot, int], bytes | None] = {}
        self.ends = threading.Event()
        self._servers = servers
        self._spots = spots

    def run(self) -> None:
        with Client(self._servers) as client:
            reader = RecordReader(client, dict.fromkeys(self._spots, 0), fetching=FetchSettings(max_wait_ms=20))
            while not self.ends.is_set():
                try:
                    for read in reader.poll():
                        self.seen[read.spot, read.record.offset] = read.record.value
                except (KafkaError, Unreachable):
                    self.ends.wait(0.05)


def read_all(client: Client, spots: list[Spot], *, committed_only: bool) -> dict[tuple[Spot, int], bytes | None]:
    """All records of partitions."""
    ends = client.list_offsets(dict.fromkeys(spots, -1))
    fetching = FetchSettings(max_wait_ms=20, committed_only=committed_only)
    reader = RecordReader(client, dict.fromkeys(spots, 0), fetching=fetching)
    found = {}
    while any(reader.positions[spot] < ends[spot] for spot in spots):
        for read in reader.poll():
            found[read.spot, read.record.offset] = read.record.value
    return found


class Rounds:
    """A source that is started again after each kill, and the cluster that takes over some topics in each round."""

    def __init__(self, directory: Path, source: KpyBroker, cluster: Cluster) -> None:
        self._sources = directory / "sources"
        self._source = source
        self._cluster = cluster
        self._number = 0

    def run(self, seed: int, longest_s: float = LONGEST_S, *, also: int | None = None) -> Outcome:
        """Begin a mirror, kill the source, and fail over. ``also`` is a node of the mirror that is killed before."""
        self._number += 1
        chosen, name = random.Random(seed), f"r{self._number}"
        spots = [Spot(f"{name}-{topic}", index) for topic, count in TOPICS.items() for index in range(count)]
        with Client(self._source.bootstrap_servers) as there:
            for topic, count in TOPICS.items():
                topic_requests.create(there, f"{name}-{topic}", count, 1, {})
        (self._sources / f"{name}.properties").write_text(f"bootstrap.servers={self._source.bootstrap_servers}\n")
        servers = self._cluster.bootstrap_servers
        writers = [Writer(self._source.bootstrap_servers, f"{name}-w{n}", spots, seed + n) for n in range(PRODUCERS)]
        with Client(servers) as here:
            set_mirrors(here, [*mirrors(here).values(), Mirror(name, [f"{name}-*"])])
            for writer in writers:
                writer.start()
            eventually(lambda: self._is_whole(here, name, spots), f"all of {name} has its places", 60, 0.5)
        looker = Looker(servers, spots)
        looker.start()
        time.sleep(chosen.uniform(0.05, longest_s))
        self._source.kill()
        time.sleep(chosen.choice((0, 0.02, 0.2)))
        if also is not None:
            self._cluster.nodes[also].kill()
        done = CliRunner().invoke(command, ["failover", name, "--now", "--json", "--bootstrap-server", servers])
        assert done.exit_code == 0, done.output
        for thread in (*writers, looker):
            thread.ends.set()
        self._source.start()
        if also is not None:
            self._cluster.nodes[also].start()
        for thread in (*writers, looker):
            thread.join(30)
        return self._judge(spots, writers, looker, done.output)

    def _is_whole(self, here: Client, name: str, spots: list[Spot]) -> bool:
        topics = {topic.name: topic.topic.topic_id for topic in mirrored_topics(here, name)}
        known = ProgressReader(here).read().places
        return all(spot.topic in topics and (topics[spot.topic], spot.partition) in known for spot in spots)

    def _judge(self, spots: list[Spot], writers: list[Writer], looker: Looker, output: str) -> Outcome:
        import json

        with Client(self._cluster.bootstrap_servers) as here:
            everything = read_all(here, spots, committed_only=False)
            committed = read_all(here, spots, committed_only=True)
        there: dict[bytes, set[Spot]] = {}
        for (spot, _), value in committed.items():
            there.setdefault(value or b"", set()).add(spot)
        wanted = {name: places for writer in writers for name, places in writer.transactions.items()}
        acknowledged = set().union(*(writer.acknowledged for writer in writers))
        torn = sum(places != wanted.get(name) for name, places in there.items())
        gone = sum(everything.get(place, b"-") != value for place, value in looker.seen.items())
        cut = sum(each["cut_records"] for each in json.loads(output)["partitions"])
        return Outcome(len(there), len(acknowledged - there.keys()), torn, len(looker.seen), gone, cut)


@contextmanager
def rounds(directory: Path) -> Iterator[Rounds]:
    """The source and the cluster, in new directories."""
    (directory / "sources").mkdir()
    (directory / "mirror").mkdir()
    settings = {"kpybroker.mirror.directory": str(directory / "sources"), "default.replication.factor": "3"}
    source = KpyBroker({"transaction.state.log.num.partitions": "3"}, directory=directory / "source")
    with source, Cluster(kpybroker_node, directory / "mirror", 3, {**CALM, **settings}) as cluster:
        yield Rounds(directory, source, cluster)


def main() -> None:
    """Do as many rounds as the first argument says, from the seed that the second one gives."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torn = gone = 0
    with tempfile.TemporaryDirectory() as directory, rounds(Path(directory)) as made:
        for number in range(count):
            also = number // EVERY % 3 + 1 if number % EVERY == EVERY - 1 else None
            outcome = made.run(seed + number * 100, also=also)
            torn, gone = torn + outcome.torn, gone + outcome.gone
            print(number, *(f"{key} {value}" for key, value in outcome._asdict().items()), flush=True)
    print(f"{count} kills, {torn} transactions torn, {gone} records gone")
    raise SystemExit(bool(torn or gone))


if __name__ == "__main__":
    main()
