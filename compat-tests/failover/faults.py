"""The faults of a cluster while others write to it, by name. Each ends with all nodes running."""

import random
import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka.admin import AdminClient

from oracle import BrokerProcess
from support.clusters import Nodes
from support.namespaces import Network
from support.waiting import attempts, eventually

PATIENCE_S: Final = 120.0

AWAY_S: Final = 2.0
PAUSE_S = 12.0
"""Longer than a broker's session of 9 s: others must lead meanwhile. Clusters with shorter sessions need less."""


def leader_of(cluster: Nodes, topic: str, partition: int = 0) -> int:
    """The node that leads a partition now; -1 if nobody does, or the asked node does not know the topic yet."""
    admin = AdminClient(cluster.access.librdkafka)
    found = admin.list_topics(topic, timeout=30).topics[topic].partitions.get(partition)
    return -1 if found is None else int(found.leader)


def wait_for_in_sync(cluster: Nodes, topic: str, size: int) -> None:
    """Wait until all partitions have ``size`` replicas in sync."""
    admin = AdminClient(cluster.access.librdkafka)

    def are_in_sync() -> bool:
        partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        return bool(partitions) and all(len(each.isrs) == size and each.leader >= 0 for each in partitions)

    eventually(are_in_sync, f"{size} replicas of {topic} in sync everywhere", PATIENCE_S, every_s=0.1)


def wait_until_replicated(cluster: Nodes, size: int, stall_s: float = 120.0) -> None:
    """Wait until every partition of every topic, Kafka's own too, has ``size`` replicas in sync; raises TimeoutError if
    none comes back for ``stall_s``. A busy machine takes long, and goes on."""
    admin = AdminClient(cluster.access.librdkafka)
    most, deadline_s = -1, time.monotonic() + stall_s
    while time.monotonic() < deadline_s:
        topics = admin.list_topics(timeout=30).topics
        partitions = [each for topic in topics.values() for each in topic.partitions.values()]
        missing = [each for each in partitions if len(each.isrs) < size or each.leader < 0]
        if partitions and not missing:
            return
        in_sync = sum(len(each.isrs) for each in partitions)
        if in_sync > most:
            most, deadline_s = in_sync, time.monotonic() + stall_s
        time.sleep(0.1)
    examples = ", ".join(f"{each.id} led by {each.leader}, in sync {each.isrs}" for each in missing[:5])
    reported = "".join(f"\nnode {node_id}:{node.tail(15)}" for node_id, node in cluster.nodes.items())
    text = f"{len(missing)} partitions lack replicas, and for {stall_s} s none came back: {examples}{reported}"
    raise TimeoutError(text)


def kill_leader(cluster: Nodes, topic: str, rng: random.Random) -> None:
    """SIGKILL of the leader of a partition."""
    kill(cluster, some_leader(cluster, topic, rng))


def kill(cluster: Nodes, node_id: int) -> None:
    """SIGKILL of a node, which is then started again."""
    node = cluster.nodes[node_id]
    node.kill()
    time.sleep(max(AWAY_S, cluster.forgotten_after_s))
    node.start()


def stop_leader(cluster: Nodes, topic: str, rng: random.Random) -> None:
    """SIGTERM of the leader of a partition."""
    stop(cluster.nodes[some_leader(cluster, topic, rng)])


def stop(process: BrokerProcess) -> None:
    """SIGTERM of a process, which is then started again."""
    process.stop()
    time.sleep(AWAY_S)
    process.start()


def pause_leader(cluster: Nodes, topic: str, rng: random.Random) -> None:
    """SIGSTOP of the leader of a partition, for longer than its session: then it wakes and thinks that it leads."""
    pause(cluster.nodes[some_leader(cluster, topic, rng)])


def pause(process: BrokerProcess) -> None:
    """SIGSTOP of a process for longer than its session."""
    process.pause()
    time.sleep(PAUSE_S)
    process.resume()


def rolling(cluster: Nodes, topic: str, _rng: random.Random) -> None:
    """Each node is stopped and started, one after the other, as for an upgrade."""
    for node in cluster.nodes.values():
        node.restart()
        wait_for_in_sync(cluster, topic, len(cluster.nodes))


def kill_all(cluster: Nodes, _topic: str, _rng: random.Random) -> None:
    """SIGKILL of all nodes at once."""
    for node in cluster.nodes.values():
        node.kill()
    time.sleep(cluster.forgotten_after_s)
    cluster.start()


def wipe(cluster: Nodes, topic: str, rng: random.Random) -> None:
    """SIGKILL of a node whose disk is then empty."""
    node_id = rng.choice(sorted(cluster.nodes))
    cluster.nodes[node_id].kill()
    cluster.wipe(node_id)
    time.sleep(cluster.forgotten_after_s)
    cluster.nodes[node_id].start()
    wait_for_in_sync(cluster, topic, len(cluster.nodes))


def cut_off(cluster: Nodes, topic: str, rng: random.Random) -> None:
    """The leader of a partition is cut off from everybody, for longer than its session; no connection is closed."""
    network = _network_of(cluster)
    node_id = some_leader(cluster, topic, rng)
    with network.cut(node_id):
        time.sleep(PAUSE_S)


def cut_off_one_way(cluster: Nodes, topic: str, rng: random.Random) -> None:
    """The leader of a partition cannot answer another node, though it hears it, and answers clients and the third."""
    network = _network_of(cluster)
    node_id = some_leader(cluster, topic, rng)
    other = rng.choice(sorted(cluster.nodes.keys() - {node_id}))
    with network.deaf(node_id, other):
        time.sleep(PAUSE_S)


def _network_of(cluster: Nodes) -> Network:
    if cluster.network is None:
        raise ValueError("nodes on loopback cannot be cut off from one another")
    return cluster.network


def nothing(_cluster: Nodes, _topic: str, _rng: random.Random) -> None:
    """No fault: what is measured without one."""
    time.sleep(AWAY_S)


def some_leader(cluster: Nodes, topic: str, rng: random.Random) -> int:
    """The node that leads one of the first partitions of a topic, as soon as somebody does."""
    for _ in attempts(f"a leader of {topic}", PATIENCE_S, every_s=0.1):
        leader = leader_of(cluster, topic, rng.randrange(3))
        if leader >= 0:
            return leader
    raise AssertionError


FAULTS: Final[Mapping[str, Callable[[Nodes, str, random.Random], None]]] = {
    "none": nothing,
    "kill-leader": kill_leader,
    "stop-leader": stop_leader,
    "pause-leader": pause_leader,
    "rolling": rolling,
    "kill-all": kill_all,
    "wipe": wipe,
    "cut-off": cut_off,
    "cut-off-one-way": cut_off_one_way,
}
NEED_NETWORK: Final = ("cut-off", "cut-off-one-way")
