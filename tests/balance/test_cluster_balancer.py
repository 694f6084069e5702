"""The cluster's own balancer on three real nodes: it advises, moves, goes on after a controller's death, and stops.

No throttle is left behind."""

import json
import time
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kpybroker.cli import main
from kpybroker.client import balance_throttles, config_requests, reassignment_requests
from kpybroker.client.balance_throttles import FoundThrottles, ThrottledMove
from kpybroker.client.balancer import EVERY_BROKER, MODE_KEY, MOVES_KEY
from kpybroker.client.client import Client
from kpybroker.client.config_requests import ConfigChange, ConfigOperation
from kpybroker.testing import Cluster
from support.waiting import becomes, eventually

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]
CONFIG = {
    "offsets.topic.replication.factor": 1,
    "replica.fetch.max.bytes": 20_000,
    "kpybroker.balancer.interval.ms": 1000,
    "kpybroker.balancer.idle.disk.percent": 0,
    "kpybroker.balancer.disk.limit.percent": 100,
}
RATE_KEY = "kpybroker.balancer.max.bytes.per.second"
SLOW = 20_000
"""A throttle with which a move takes long."""
RECORDS = 1500
NOTHING = FoundThrottles({}, {})


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Nodes that share a process, or with the parameter True a process each."""
    with Cluster(3, CONFIG, process=getattr(request, "param", False)) as cluster:
        yield cluster


def done(cluster: Cluster, *words: str) -> str:
    result = CliRunner().invoke(main, [*words, "-b", cluster.bootstrap_servers])
    assert result.exit_code == 0, result.output
    return result.stdout


def set_configs(cluster: Cluster, **configs: str) -> None:
    names = {"mode": MODE_KEY, "rate": RATE_KEY}
    with Client(cluster.bootstrap_servers) as client:
        changes = [ConfigChange(ConfigOperation.SET, names[name], value) for name, value in configs.items()]
        config_requests.alter(client, EVERY_BROKER, changes)


def config_of(cluster: Cluster, name: str) -> str:
    with Client(cluster.bootstrap_servers) as client:
        found = config_requests.describe(client, EVERY_BROKER, [name])
    return next((each.value or "" for each in found if each.name == name), "")


def moving(cluster: Cluster) -> int:
    with Client(cluster.bootstrap_servers) as client:
        return len(reassignment_requests.moving(client))


def throttles(cluster: Cluster) -> FoundThrottles:
    with Client(cluster.bootstrap_servers) as client:
        return balance_throttles.found(client)


def on_broker_3(cluster: Cluster) -> int:
    (found,) = json.loads(done(cluster, "topics", "describe", "orders", "--json"))
    return sum(3 in each["replicas"] for each in found["partitions"])


@pytest.fixture
def skewed(cluster: Cluster) -> Cluster:
    """A topic that has all its replicas on brokers 1 and 2, with 3 MB of records in small batches."""
    done(cluster, "topics", "create", "orders", "-p", "6", "-r", "2")
    done(cluster, "topics", "reassign", "orders", "--broker-list", "1,2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.size": 16_384, "log_level": 0})
    for number in range(RECORDS):
        producer.produce("orders", b"x" * 2000, partition=number % 6)
    assert producer.flush(30) == 0
    return cluster


def is_clean(cluster: Cluster) -> bool:
    return not moving(cluster) and throttles(cluster) == NOTHING and not config_of(cluster, MOVES_KEY)


def test_the_mode_advise_moves_nothing_and_auto_moves_and_cleans_up(skewed: Cluster) -> None:
    set_configs(skewed, mode="advise")
    time.sleep(8)
    assert on_broker_3(skewed) == 0
    assert is_clean(skewed)
    set_configs(skewed, mode="auto")
    eventually(lambda: on_broker_3(skewed) >= 3 and is_clean(skewed), "a balanced cluster without throttles", 60)


@pytest.mark.parametrize("cluster", [True], indirect=True, ids=["processes"])
def test_the_next_controller_finishes_moves_that_are_under_way(skewed: Cluster) -> None:
    set_configs(skewed, rate=str(SLOW), mode="auto")
    eventually(lambda: moving(skewed) and not throttles(skewed).is_empty, "moves under way", 60)
    active = skewed.controller()
    skewed.kill(active)
    eventually(lambda: skewed.controller() != active, "another controller", 60)
    set_configs(skewed, rate=str(2**30))
    skewed.restart(active)
    eventually(lambda: on_broker_3(skewed) >= 3 and is_clean(skewed), "a balanced cluster without throttles", 100)


def test_a_cancelled_move_stops_the_balancer(skewed: Cluster) -> None:
    set_configs(skewed, rate=str(SLOW), mode="auto")
    eventually(lambda: moving(skewed) and not throttles(skewed).is_empty, "moves under way", 60)
    done(skewed, "balance", "stop")
    becomes(lambda: config_of(skewed, MODE_KEY), "advise", 30)
    eventually(lambda: is_clean(skewed), "no throttle", 30)


def test_the_mode_off_cancels_moves_that_are_under_way(skewed: Cluster) -> None:
    set_configs(skewed, rate=str(SLOW), mode="auto")
    eventually(lambda: moving(skewed) and not throttles(skewed).is_empty, "moves under way", 60)
    set_configs(skewed, mode="off")
    eventually(lambda: is_clean(skewed), "no throttle", 30)
    assert on_broker_3(skewed) == 0


def test_the_balancer_waits_while_others_move_partitions(skewed: Cluster) -> None:
    with Client(skewed.bootstrap_servers) as client:
        balance_throttles.set_rate(client, [1, 2, 3], SLOW)
        balance_throttles.set_entries(client, [ThrottledMove("orders", 0, (1, 2), (3,))])
        reassignment_requests.reassign(client, {"orders": {0: (3, 2)}})
    set_configs(skewed, mode="auto")
    time.sleep(8)
    assert moving(skewed) == 1
    assert not config_of(skewed, MOVES_KEY)
    done(skewed, "balance", "stop")
    eventually(lambda: on_broker_3(skewed) >= 3 and is_clean(skewed), "a balanced cluster without throttles", 60)
