"""Clusters of three in ZooKeeper mode, kpybroker's beside that of Apache Kafka 3.9: ``python -m benchmarks.zookeeper``.

    PYTHONPATH=.:compat-tests python -m benchmarks.zookeeper [--rounds 3] [--partitions 10000] [--only ROW,...]

Both clusters run all the time, each with a ZooKeeper of its own, and are asked in turns. Sessions have 4 s on both
sides, and each figure of a SIGKILL contains them. Printed are medians, and how many times better kpybroker is.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import click
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient

from benchmarks.three_nodes import CALM_S, NODES, PARTITIONS, Asked, Figures, play
from failover.faults import leader_of, wait_for_in_sync
from failover.producing import ConfluentWriter
from failover.verdict import longest_gap_s
from failover.zookeeper_faults import controller_of
from oracle import SERVER_JVM, SERVER_PROPERTIES, BrokerProcess
from oracle.zookeeper import KafkaOnZooKeeper
from zookeeper_clusters import REPLICATED, KpyOnZooKeeper, ZooKeeperCluster

TOPICS: Final = 1_000
LED: Final = 300
"""The partitions of the topic whose leaders move in a controlled shutdown."""
PATIENCE_S: Final = 600.0
LOOK_EVERY_S: Final = 0.02
KEPT: Final = "many-partitions"
SIDES: Final[Mapping[str, Callable[..., BrokerProcess]]] = {
    "Apache Kafka": partial(KafkaOnZooKeeper, jvm=SERVER_JVM, tuning=SERVER_PROPERTIES),
    "kpybroker": KpyOnZooKeeper,
}


class AskedOnZooKeeper(Asked):
    """A cluster whose controller may just have changed: a client that asks the former one asks again."""

    def create_topic(self, partitions: int = PARTITIONS) -> str:
        return str(again(lambda: super(AskedOnZooKeeper, self).create_topic(partitions)))

    def delete_topic(self, topic: str) -> None:
        again(lambda: super(AskedOnZooKeeper, self).delete_topic(topic))


def again(ask: Callable[[], Any]) -> Any:
    """Ask until the answer is another one than NOT_CONTROLLER."""
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_CONTROLLER:
                raise
            time.sleep(LOOK_EVERY_S)


def cluster_of(asked: Asked) -> ZooKeeperCluster:
    return cast("ZooKeeperCluster", asked.cluster)


def led_by(asked: Asked, topic: str, partition: int = 0) -> int:
    """The leader of a partition, as soon as the asked broker knows one."""
    while (leader := leader_of(asked.cluster, topic, partition)) < 0:
        time.sleep(LOOK_EVERY_S)
    return leader


def gap_ms(asked: Asked, topic: str, fault: Callable[[], object]) -> float:
    """The longest time without an acknowledgement around a fault."""
    writer = ConfluentWriter("writer", asked.cluster.access, topic, PARTITIONS)
    writer.start()
    time.sleep(CALM_S)
    fault()
    time.sleep(CALM_S)
    writer.stop()
    return longest_gap_s(writer.times_s) * 1000


def wait_for_brokers(asked: Asked) -> None:
    """Wait until the controller knows all brokers."""
    while len(asked.admin.list_topics(timeout=60).brokers) < NODES:
        time.sleep(LOOK_EVERY_S)


def come_back(asked: Asked, node: BrokerProcess, topic: str) -> None:
    """Start a node that was killed, and wait until its replicas are in sync."""
    time.sleep(asked.cluster.forgotten_after_s)
    node.start()
    wait_for_in_sync(asked.cluster, topic, NODES)


def leader_failover(asked: Asked) -> Figures:
    """SIGKILL of a leader that is not the controller."""
    topic = asked.create_topic()
    controller = controller_of(cluster_of(asked))
    leader = next(each for each in (led_by(asked, topic, index) for index in range(PARTITIONS)) if each != controller)
    node = asked.cluster.nodes[leader]
    gap = gap_ms(asked, topic, node.kill)
    come_back(asked, node, topic)
    asked.delete_topic(topic)
    return {"gap ms": gap}


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
    admin = AdminClient({**asked.cluster.access.librdkafka, "topic.metadata.refresh.interval.ms": 100})
    name = f"new-{time.monotonic_ns()}"
    deadline_s = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline_s:
        with suppress(KafkaException):
            found = admin.list_topics(name, timeout=5).topics[name]
            if not found.error and all(each.leader >= 0 for each in found.partitions.values()):
                return time.perf_counter() - began_s
            if found.error:
                admin.create_topics([NewTopic(name, 1, 2)], request_timeout=5)[name].result(10)
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"no controller has created {name}")


def controlled_shutdown(asked: Asked) -> Figures:
    """SIGTERM of a broker that leads a third of some hundred partitions: until it has ended."""
    topic = asked.create_topic(LED)
    node = asked.cluster.nodes[led_by(asked, topic)]
    took_s = node.stop()
    node.start()
    wait_for_in_sync(asked.cluster, topic, NODES)
    asked.delete_topic(topic)
    return {"s": took_s}


def create_topics(asked: Asked) -> Figures:
    """From the request until all topics have leaders."""
    names = [f"topic-{time.monotonic_ns()}-{number}" for number in range(TOPICS)]
    wanted = [NewTopic(name, 1, NODES) for name in names]
    began_s = time.perf_counter()
    for future in asked.admin.create_topics(wanted, operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S).values():
        future.result(PATIENCE_S)
    wait_for_leaders(asked, set(names))
    took_s = time.perf_counter() - began_s
    for future in asked.admin.delete_topics(names, operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S).values():
        future.result(PATIENCE_S)
    return {"s": took_s}


def wait_for_leaders(asked: Asked, names: set[str]) -> None:
    deadline_s = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline_s:
        topics = asked.admin.list_topics(timeout=60).topics
        led = {name for name in names & topics.keys() if topics[name].partitions}
        if led == names and all(each.leader >= 0 for name in led for each in topics[name].partitions.values()):
            return
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"{len(names)} topics have no leaders")


def controller_start(asked: Asked, partitions: int) -> Figures:
    """Until a controller that has just been elected, with many partitions, has created a topic."""
    if KEPT not in asked.admin.list_topics(timeout=60).topics:
        wanted = NewTopic(KEPT, partitions, 1)
        asked.admin.create_topics([wanted], operation_timeout=PATIENCE_S, request_timeout=PATIENCE_S)[KEPT].result(
            PATIENCE_S
        )
        wait_for_leaders(asked, {KEPT})
    tree: Any = KazooClient(cluster_of(asked).connect)
    tree.start()
    try:
        epoch = tree.get("/controller_epoch")[0]
        began_s = time.perf_counter()
        tree.delete("/controller")
        while tree.get("/controller_epoch")[0] == epoch:
            time.sleep(LOOK_EVERY_S)
        return {"s": created_s(asked, began_s)}
    finally:
        tree.stop()
        tree.close()


def broker_start(asked: Asked) -> Figures:
    """From the start of a process until it answers, and until its replicas are in sync."""
    topic = asked.create_topic()
    node = asked.cluster.nodes[NODES]
    node.stop()
    began_s = time.perf_counter()
    node.start()
    answers_s = time.perf_counter() - began_s
    wait_for_in_sync(asked.cluster, topic, NODES)
    in_sync_s = time.perf_counter() - began_s
    asked.delete_topic(topic)
    return {"answers s": answers_s, "in sync s": in_sync_s}


def rows_of(partitions: int) -> dict[str, Callable[[Asked], Figures]]:
    """The rows; the last one leaves many partitions behind."""
    return {
        "leader-failover": leader_failover,
        "controller-failover": controller_failover,
        "controlled-shutdown": controlled_shutdown,
        "create-topics": create_topics,
        "broker-start": broker_start,
        "controller-start": partial(controller_start, partitions=partitions),
    }


@click.command()
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--warm", type=click.IntRange(0), default=1, show_default=True, help="Rounds before, not counted.")
@click.option("--partitions", type=click.IntRange(1), default=10_000, show_default=True, help="For controller-start.")
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
@click.option("--only", help="Rows: " + ", ".join(rows_of(0)))
def main(rounds: int, warm: int, partitions: int, kpybroker: Path | None, only: str | None) -> None:
    """Compare clusters of three in ZooKeeper mode."""
    if kpybroker is not None:
        KpyOnZooKeeper.path = kpybroker
    chosen = {name: row for name, row in rows_of(partitions).items() if only is None or name in only.split(",")}
    if not chosen:
        raise click.BadParameter(f"--only names none of {', '.join(rows_of(0))}")
    with ExitStack() as stack:
        sides = []
        for name, broker_of in SIDES.items():
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-zookeeper-")))
            brokers = dict.fromkeys(range(1, NODES + 1), broker_of)
            sides.append(AskedOnZooKeeper(name, stack.enter_context(ZooKeeperCluster(directory, brokers, REPLICATED))))
        for side in sides:
            wait_for_brokers(side)
        play(chosen, sides, rounds, warm)


if __name__ == "__main__":
    main()
