"""Clusters of three in ZooKeeper mode, kpybroker's beside that of Apache Kafka 3.9: ``python -m benchmarks.zookeeper``.

    PYTHONPATH=.:compat-tests python -m benchmarks.zookeeper [--quick] [--rounds 3] [--only ROW,...]

Both clusters run all the time, each with a ZooKeeper of its own, and are asked in turns. Sessions have 4 s on both
sides, and each figure of a SIGKILL contains them. Printed are medians, and how many times better kpybroker is. Each
row prints what it waits for, and gives up after some minutes.
"""

import os
import random
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from benchmarks.clients.running import client
from benchmarks.three_nodes import CALM_S, NODES, PARTITIONS, Asked, Figures, play, round_trip
from failover.faults import leader_of, wait_for_in_sync
from failover.producing import ConfluentWriter
from failover.verdict import longest_gap_s
from failover.zookeeper_faults import controller_of
from oracle import SERVER_JVM, SERVER_PROPERTIES, BrokerProcess
from oracle.zookeeper import KafkaOnZooKeeper
from support.zookeeper_clusters import REPLICATED, SESSION_TIMEOUT_MS, KpyOnZooKeeper, ZooKeeperCluster

PATIENCE_S: Final = 300.0
"""The longest wait for one thing. librdkafka gives a request no more time."""
LOOK_EVERY_S: Final = 0.02
RECORD_BYTES: Final = 1_000
KEPT: Final = ("many-partitions-1", "many-partitions-2")
"""Two topics: one request creates fewer than 10 000 partitions."""
SIDES: Final[Mapping[str, Callable[..., BrokerProcess]]] = {
    "Apache Kafka": partial(KafkaOnZooKeeper, jvm=SERVER_JVM, tuning=SERVER_PROPERTIES),
    "kpybroker": KpyOnZooKeeper,
}


class Sizes(NamedTuple):
    """The amounts of a run. ``led`` are the partitions whose leaders move in a controlled shutdown."""

    topics: int
    led: int
    partitions: int
    records: int


FULL: Final = Sizes(topics=1_000, led=300, partitions=10_000, records=150_000)
QUICK: Final = Sizes(topics=100, led=60, partitions=1_000, records=30_000)


class AskedOnZooKeeper(Asked):
    """A cluster whose controller may just have changed: a client that asks the former one asks again."""

    def __init__(self, name: str, cluster: ZooKeeperCluster) -> None:
        super().__init__(name, cluster)
        timeout_ms = int(PATIENCE_S * 1000)
        self.admin = AdminClient({**cluster.access.librdkafka, "log_level": 0, "socket.timeout.ms": timeout_ms})

    def create_topic(self, partitions: int = PARTITIONS) -> str:
        self.say(f"creates a topic of {partitions} partitions")
        return str(again(lambda: super(AskedOnZooKeeper, self).create_topic(partitions)))

    def delete_topic(self, topic: str) -> None:
        again(lambda: super(AskedOnZooKeeper, self).delete_topic(topic))

    def say(self, what: str) -> None:
        """Print what the cluster does or is waited for."""
        print(f"{time.strftime('%H:%M:%S')} load {os.getloadavg()[0]:.0f}  {self.name} {what}", flush=True)


class TimedWriter(ConfluentWriter):
    """A writer that remembers of each partition when its records were acknowledged."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.times_of: dict[int, list[float]] = defaultdict(list)

    def note(self, partition: int, number: int, error: Any) -> None:
        super().note(partition, number, error)
        if error is None:
            self.times_of[partition].append(time.monotonic())


def again(ask: Callable[[], Any]) -> Any:
    """Ask until the answer is another one than NOT_CONTROLLER."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_CONTROLLER or time.monotonic() > deadline_s:
                raise
            time.sleep(LOOK_EVERY_S)


def until(asked: Asked, what: str, is_so: Callable[[], object], *, every_s: float = LOOK_EVERY_S) -> None:
    """Wait until something is so, and say what."""
    cast("AskedOnZooKeeper", asked).say(f"waits until {what}")
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{asked.name}: after {PATIENCE_S} s it is not so that {what}")
        time.sleep(every_s)


def cluster_of(asked: Asked) -> ZooKeeperCluster:
    return cast("ZooKeeperCluster", asked.cluster)


@contextmanager
def tree_of(asked: Asked) -> Iterator[Any]:
    """A client of the cluster's ZooKeeper."""
    tree: Any = KazooClient(cluster_of(asked).connect)
    tree.start()
    try:
        yield tree
    finally:
        tree.stop()
        tree.close()


def led_by(asked: Asked, topic: str, partition: int = 0) -> int:
    """The leader of a partition, as soon as the asked broker knows one."""
    found: list[int] = []

    def is_led() -> bool:
        found.append(leader_of(asked.cluster, topic, partition))
        return found[-1] >= 0

    until(asked, f"{topic}-{partition} has a leader", is_led)
    return found[-1]


def wait_for_brokers(asked: Asked) -> None:
    """Wait until the controller knows all brokers."""
    until(asked, f"there are {NODES} brokers", lambda: len(asked.admin.list_topics(timeout=60).brokers) >= NODES)


def come_back(asked: Asked, node: BrokerProcess, topic: str) -> None:
    """Start a node that was killed, and wait until its replicas are in sync."""
    cast("AskedOnZooKeeper", asked).say("starts the killed broker")
    time.sleep(asked.cluster.forgotten_after_s)
    node.start()
    wait_for_in_sync(asked.cluster, topic, NODES)


def leader_failover(asked: Asked) -> Figures:
    """SIGKILL of a leader that is not the controller: the longest time without an acknowledgement of its partition. Of
    that, the time until ZooKeeper ends the session, and from there until clients learn the next leader."""
    topic = asked.create_topic()
    controller = controller_of(cluster_of(asked))
    partition, leader = next(
        (index, each)
        for index, each in ((index, led_by(asked, topic, index)) for index in range(PARTITIONS))
        if each != controller
    )
    node, ended = asked.cluster.nodes[leader], threading.Event()
    survivors = ",".join(each.bootstrap_servers for number, each in asked.cluster.nodes.items() if number != leader)
    client = AdminClient({"bootstrap.servers": survivors, "log_level": 0})
    writer = TimedWriter("writer", asked.cluster.access, topic, PARTITIONS)
    with tree_of(asked) as tree:
        tree.exists(f"/brokers/ids/{leader}", watch=lambda _event: ended.set())
        client.list_topics(topic, timeout=60)
        writer.start()
        try:
            time.sleep(CALM_S + random.uniform(0, SESSION_TIMEOUT_MS / 3_000))  # at any time between two heartbeats
            killed_s = time.perf_counter()
            node.kill()
            cast("AskedOnZooKeeper", asked).say("waits until ZooKeeper ends the session of the killed broker")
            if not ended.wait(PATIENCE_S):
                raise TimeoutError("the registration of a killed broker stays")
            began_s = time.perf_counter()
            ended_ms = (began_s - killed_s) * 1000
            until(
                asked,
                "another broker leads",
                lambda: client.list_topics(topic, timeout=60).topics[topic].partitions[partition].leader != leader,
                every_s=0.001,
            )
            noticed_ms = (time.perf_counter() - began_s) * 1000
            time.sleep(CALM_S)
        finally:
            writer.stop()
    come_back(asked, node, topic)
    asked.delete_topic(topic)
    gap_ms = longest_gap_s(writer.times_of[partition]) * 1000
    return {"gap ms": gap_ms, "session's end ms": ended_ms, "then a leader ms": noticed_ms}


def controller_failover(asked: Asked) -> Figures:
    """Until the next controller has created a topic: after SIGKILL and after SIGTERM of the one before."""
    topic, figures = asked.create_topic(), {}
    for how in ("SIGKILL", "SIGTERM"):
        node = asked.cluster.nodes[controller_of(cluster_of(asked))]
        began_s = time.perf_counter()
        if how == "SIGKILL":
            node.kill()
        else:
            node.stop()
        figures[f"{how} s"] = created_s(asked, began_s)
        come_back(asked, node, topic)
    asked.delete_topic(topic)
    return figures


def created_s(asked: Asked, began_s: float) -> float:
    """Until some controller has created a topic that has a leader. It stays: while a broker is away, it cannot go."""
    admin = AdminClient({**asked.cluster.access.librdkafka, "topic.metadata.refresh.interval.ms": 100, "log_level": 0})
    name = f"new-{time.monotonic_ns()}"

    def is_created() -> bool:
        with suppress(KafkaException):
            found = admin.list_topics(name, timeout=5).topics[name]
            if not found.error and all(each.leader >= 0 for each in found.partitions.values()):
                return True
            if found.error:
                admin.create_topics([NewTopic(name, 1, 2)], request_timeout=5)[name].result(10)
        return False

    until(asked, "a controller has created a topic", is_created)
    return time.perf_counter() - began_s


def controlled_shutdown(asked: Asked, led: int) -> Figures:
    """SIGTERM of a broker that leads a third of some hundred partitions: until it has ended."""
    topic = asked.create_topic(led)
    node = asked.cluster.nodes[led_by(asked, topic)]
    took_s = node.stop()
    cast("AskedOnZooKeeper", asked).say("starts the stopped broker")
    node.start()
    wait_for_in_sync(asked.cluster, topic, NODES)
    asked.delete_topic(topic)
    return {"s": took_s}


def create_topics(asked: Asked, topics: int) -> Figures:
    """From the request until all topics have leaders."""
    names = [f"topic-{time.monotonic_ns()}-{number}" for number in range(topics)]
    cast("AskedOnZooKeeper", asked).say(f"creates {topics} topics")
    began_s = time.perf_counter()
    create(asked, [NewTopic(name, 1, NODES) for name in names])
    wait_for_leaders(asked, set(names))
    took_s = time.perf_counter() - began_s
    cast("AskedOnZooKeeper", asked).say(f"deletes {topics} topics")
    for future in asked.admin.delete_topics(names, operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S).values():
        future.result(PATIENCE_S)
    return {"s": took_s}


def create(asked: Asked, wanted: list[NewTopic]) -> None:
    """Create topics in one request."""
    made = asked.admin.create_topics(wanted, operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S)
    for future in made.values():
        future.result(PATIENCE_S)


def wait_for_leaders(asked: Asked, names: set[str]) -> None:
    def are_led() -> bool:
        topics = asked.admin.list_topics(timeout=60).topics
        led = {name for name in names & topics.keys() if topics[name].partitions}
        return led == names and all(each.leader >= 0 for name in led for each in topics[name].partitions.values())

    until(asked, f"{len(names)} topics have leaders", are_led)


def controller_start(asked: Asked, partitions: int) -> Figures:
    """Until a controller that has just been elected, with many partitions, has created a topic."""
    for name in KEPT:
        if name not in asked.admin.list_topics(timeout=60).topics:
            cast("AskedOnZooKeeper", asked).say(f"creates {partitions // len(KEPT)} partitions")
            create(asked, [NewTopic(name, partitions // len(KEPT), 1)])
            wait_for_leaders(asked, {name})
    with tree_of(asked) as tree:
        epoch = tree.get("/controller_epoch")[0]
        began_s = time.perf_counter()
        tree.delete("/controller")
        until(asked, "a controller is elected", lambda: tree.get("/controller_epoch")[0] != epoch)
        return {"s": created_s(asked, began_s)}


def broker_start(asked: Asked) -> Figures:
    """From the start of a process until it answers, and until its replicas are in sync."""
    topic = asked.create_topic()
    node = asked.cluster.nodes[NODES]
    node.stop()
    cast("AskedOnZooKeeper", asked).say("starts a broker")
    began_s = time.perf_counter()
    node.start()
    answers_s = time.perf_counter() - began_s
    wait_for_in_sync(asked.cluster, topic, NODES)
    in_sync_s = time.perf_counter() - began_s
    asked.delete_topic(topic)
    return {"answers s": answers_s, "in sync s": in_sync_s}


def produce_and_consume(asked: Asked, records: int) -> Figures:
    """One librdkafka producer, acks=all and three replicas, and then one consumer; also beside the CPU time of the
    brokers."""
    topic, servers = asked.create_topic(), asked.cluster.bootstrap_servers
    cast("AskedOnZooKeeper", asked).say(f"takes and gives {records} records")
    megabytes, figures = records * RECORD_BYTES / 1e6, {}
    for name, module, sizes in (
        ("produced", "confluent_produce", (records, RECORD_BYTES, RECORD_BYTES, "acks=all")),
        ("consumed", "confluent_consume", (PARTITIONS, records)),
    ):
        before_s = asked.cpu_seconds()
        figures[f"MB/s {name}"] = megabytes / client(module, servers, topic, *sizes)
        figures[f"MB {name} per CPU second"] = megabytes / (asked.cpu_seconds() - before_s)
    asked.delete_topic(topic)
    return figures


def rows_of(sizes: Sizes) -> dict[str, Callable[[Asked], Figures]]:
    """The rows; the last one leaves many partitions behind."""
    return {
        "leader-failover": leader_failover,
        "controller-failover": controller_failover,
        "controlled-shutdown": partial(controlled_shutdown, led=sizes.led),
        "create-topics": partial(create_topics, topics=sizes.topics),
        "broker-start": broker_start,
        "produce-consume": partial(produce_and_consume, records=sizes.records),
        "round-trip": round_trip,
        "controller-start": partial(controller_start, partitions=sizes.partitions),
    }


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--warm", type=click.IntRange(0), default=1, show_default=True, help="Rounds before, not counted.")
@click.option("--quick", is_flag=True, help=f"Small sizes: {QUICK.topics} topics, {QUICK.partitions} partitions.")
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
@click.option("--only", help="Rows: " + ", ".join(rows_of(FULL)))
def main(rounds: int, warm: int, quick: bool, kpybroker: Path | None, only: str | None) -> None:
    """Compare clusters of three in ZooKeeper mode."""
    if kpybroker is not None:
        KpyOnZooKeeper.path = kpybroker
    rows = rows_of(QUICK if quick else FULL)
    chosen = {name: row for name, row in rows.items() if only is None or name in only.split(",")}
    if not chosen:
        raise click.BadParameter(f"--only names none of {', '.join(rows)}")
    with ExitStack() as stack:
        sides = []
        for name, broker_of in SIDES.items():
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-zookeeper-")))
            brokers = dict.fromkeys(range(1, NODES + 1), broker_of)
            print(f"{time.strftime('%H:%M:%S')}  starts three brokers of {name}", flush=True)
            sides.append(AskedOnZooKeeper(name, stack.enter_context(ZooKeeperCluster(directory, brokers, REPLICATED))))
        for side in sides:
            wait_for_brokers(side)
        play(chosen, sides, rounds, warm)


if __name__ == "__main__":
    main()
