"""The faults that only a cluster in ZooKeeper mode can have: of its controller, and of the servers of ZooKeeper."""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from confluent_kafka.admin import AdminClient

from failover import faults
from failover.faults import PATIENCE_S, kill, pause, some_leader, stop
from support.namespaces import Network
from support.waiting import eventually
from support.zookeeper_clusters import ZooKeeperCluster


def controller_of(cluster: ZooKeeperCluster) -> int:
    """The broker that is the controller, as soon as there is one."""
    admin = AdminClient(cluster.access.librdkafka)
    return eventually(
        lambda: {admin.list_topics(timeout=30).controller_id} & cluster.nodes.keys(), "a controller", PATIENCE_S
    ).pop()


def leading_server(cluster: ZooKeeperCluster) -> int:
    """The server of ZooKeeper that leads, as soon as one does."""
    return eventually(lambda: cluster.leading_server, "a leader of ZooKeeper", PATIENCE_S)


def kill_controller(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """SIGKILL of the controller."""
    kill(cluster, controller_of(cluster))


def pause_controller(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """SIGSTOP of the controller for longer than its session: then it wakes and thinks that it still is."""
    pause(cluster.nodes[controller_of(cluster)])


def stop_controller(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """SIGTERM of the controller."""
    stop(cluster.nodes[controller_of(cluster)])


def kill_zookeeper(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """SIGKILL of the server of ZooKeeper that leads."""
    server = cluster.servers[leading_server(cluster)]
    server.kill()
    time.sleep(faults.AWAY_S)
    server.start()


def pause_zookeeper(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """SIGSTOP of the server of ZooKeeper that leads, until another one does and longer."""
    pause(cluster.servers[leading_server(cluster)])


def kill_all_zookeepers(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """SIGKILL of all servers of ZooKeeper; they are away for longer than all sessions."""
    for server in cluster.servers.values():
        server.kill()
    time.sleep(faults.PAUSE_S)
    cluster.start_servers()


def cut_off_zookeeper(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """The server of ZooKeeper that leads is cut off from everybody; no connection is closed."""
    with _network_of(cluster).cut(len(cluster.nodes) + leading_server(cluster)):
        time.sleep(faults.PAUSE_S)


def cut_off_from_zookeeper(cluster: ZooKeeperCluster, topic: str, rng: random.Random) -> None:
    """The leader of a partition loses its session, and still reaches all brokers and clients."""
    network, leader = _network_of(cluster), some_leader(cluster, topic, rng)
    with ExitStack() as stack:
        for server in cluster.servers:
            stack.enter_context(network.deaf(leader, len(cluster.nodes) + server))
        time.sleep(faults.PAUSE_S)


def cut_off_controller(cluster: ZooKeeperCluster, _topic: str, _rng: random.Random) -> None:
    """The controller is cut off from everybody; no connection is closed."""
    with _network_of(cluster).cut(controller_of(cluster)):
        time.sleep(faults.PAUSE_S)


def _network_of(cluster: ZooKeeperCluster) -> Network:
    if cluster.network is None:
        raise ValueError("processes on loopback cannot be cut off from one another")
    return cluster.network


ZOOKEEPER_FAULTS: Final[Mapping[str, Callable[[ZooKeeperCluster, str, random.Random], None]]] = {
    "kill-controller": kill_controller,
    "stop-controller": stop_controller,
    "pause-controller": pause_controller,
    "kill-zookeeper": kill_zookeeper,
    "pause-zookeeper": pause_zookeeper,
    "kill-all-zookeepers": kill_all_zookeepers,
    "cut-off-controller": cut_off_controller,
    "cut-off-zookeeper": cut_off_zookeeper,
    "cut-off-from-zookeeper": cut_off_from_zookeeper,
}
NEED_NETWORK: Final = ("cut-off-controller", "cut-off-zookeeper", "cut-off-from-zookeeper")
