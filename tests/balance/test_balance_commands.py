"""``kpybroker balance`` on three real nodes: plans are carried out under load, executions are killed and stopped.

No throttle is left behind."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer

from kpybroker.cli import main
from kpybroker.client import balance_throttles, reassignment_requests
from kpybroker.client.balance_throttles import FoundThrottles, ThrottledMove
from kpybroker.client.client import Client
from kpybroker.testing import Cluster
from support.waiting import becomes, eventually

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]
EVERYWHERE = ("--sample", "0", "--idle-disk", "0", "--disk-limit", "100")
"""Options with which the disk of the machine does not matter."""
SLOW = ("--throttle", "20000", "--least-throttle", "20000", "--most-throttle", "20000")
"""A throttle with which a move takes long."""
RECORDS = 1500
LARGEST_BYTES = 600_000
"""More than one partition has."""
LEAST_SHARE = 0.9
"""The part of its share that a new broker gets at least: the tolerance is 10 %."""
NOTHING = FoundThrottles({}, {})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {"offsets.topic.replication.factor": 1, "replica.fetch.max.bytes": 20_000}
    with Cluster(3, config, process=False) as cluster:
        yield cluster


def invoke(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "-b", cluster.bootstrap_servers])


def done(cluster: Cluster, *words: str) -> str:
    result = invoke(cluster, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def replicas(cluster: Cluster, name: str) -> list[list[int]]:
    (found,) = json.loads(done(cluster, "topics", "describe", name, "--json"))
    return [each["replicas"] for each in found["partitions"]]


def held(cluster: Cluster) -> dict[int, tuple[int, int]]:
    """The number of replicas of each broker, and their bytes, of all topics."""
    found = json.loads(done(cluster, "cluster", "log-dirs", "--json"))
    return {each["broker"]: (each["partitions"], each["used_bytes"]) for each in found}


def throttles(cluster: Cluster) -> FoundThrottles:
    with Client(cluster.bootstrap_servers) as client:
        return balance_throttles.found(client)


def moving(cluster: Cluster) -> int:
    with Client(cluster.bootstrap_servers) as client:
        return len(reassignment_requests.moving(client))


@pytest.fixture
def skewed(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic that has all its replicas on brokers 1 and 2, with 3 MB of records in small batches."""
    name = request.node.name.replace("[", "-").rstrip("]")
    done(cluster, "topics", "create", name, "-p", "6", "-r", "2")
    done(cluster, "topics", "reassign", name, "--broker-list", "1,2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.size": 16_384, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(name, b"x" * 2000, partition=number % 6)
    assert producer.flush(30) == 0
    yield name
    done(cluster, "balance", "stop")
    done(cluster, "topics", "delete", name)


def lacking(cluster: Cluster) -> int:
    """The number of partitions that lack a replica in sync."""
    return int(json.loads(done(cluster, "cluster", "describe", "--json"))["under_replicated_partitions"])


def planned(cluster: Cluster, directory: Path, *words: str) -> Path:
    """The file of a plan that moves something. It waits for partitions that lack a replica: they stay as they are."""
    becomes(lambda: lacking(cluster), 0)
    plan = directory / "plan.json"
    done(cluster, "balance", *(words or ("plan",)), "-o", str(plan), *EVERYWHERE)
    assert json.loads(plan.read_text())["partitions"]
    return plan


@contextmanager
def applying(cluster: Cluster, plan: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """An execution in a process of its own, whose moves are under way."""
    command = [sys.executable, "-m", "kpybroker", "balance", "apply", str(plan), "--disk-limit", "100", *words]
    process = subprocess.Popen(
        [*command, "-b", cluster.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        eventually(lambda: moving(cluster) and not throttles(cluster).is_empty, "moves under way")
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def load(cluster: Cluster, topic: str) -> Iterator[list[int]]:
    """A producer that writes all the time. What it yields has the number of acknowledged records at the end."""
    counts = [0]
    errors: list[object] = []
    ended = threading.Event()

    def delivered(error: object, _record: object) -> None:
        if error is None:
            counts[0] += 1
        else:
            errors.append(error)

    def produce() -> None:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        producer = Producer(settings)
        while not ended.wait(0.005):
            producer.produce(topic, b"y" * 200, on_delivery=delivered)
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield counts
    finally:
        ended.set()
        thread.join(60)
    assert not errors


def records_in(cluster: Cluster, topic: str) -> int:
    """The number of records that a consumer reads from a topic."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "count", "enable.partition.eof": True}
    client = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0})
    client.subscribe([topic])
    count, ends = 0, set[int]()
    try:

        def read_all() -> bool:
            nonlocal count
            for record in client.consume(1000, 0.2):
                if record.error() is None:
                    count += 1
                else:
                    ends.add(record.partition() or 0)
            return len(ends) == 6

        eventually(read_all, "the ends of all partitions")
    finally:
        client.close()
    return count


def test_a_plan_is_carried_out_under_load_and_loses_nothing(cluster: Cluster, skewed: str, tmp_path: Path) -> None:
    plan = planned(cluster, tmp_path)
    wanted = {each["partition"]: each["replicas"] for each in json.loads(plan.read_text())["partitions"]}
    with load(cluster, skewed) as acknowledged:
        output = done(cluster, "balance", "apply", str(plan), "--disk-limit", "100")
    assert output.endswith("No throttle is left.\n")
    after = replicas(cluster, skewed)
    assert {number: after[number] for number in wanted} == wanted
    assert throttles(cluster) == NOTHING
    assert records_in(cluster, skewed) == RECORDS + acknowledged[0]
    assert "Nothing has to move." in done(cluster, "balance", "plan", *EVERYWHERE)


def test_an_execution_that_was_killed_is_continued(cluster: Cluster, skewed: str, tmp_path: Path) -> None:
    plan = planned(cluster, tmp_path)
    with applying(cluster, plan, *SLOW) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    assert moving(cluster)
    assert not throttles(cluster).is_empty
    watched = done(cluster, "balance", "watch", "--once")
    assert skewed in watched
    assert "throttle 20 kB/s" in watched
    assert done(cluster, "balance", "apply", str(plan), "--disk-limit", "100").endswith("No throttle is left.\n")
    assert throttles(cluster) == NOTHING
    assert any(3 in each for each in replicas(cluster, skewed))


def test_stop_cancels_moves_and_the_execution_ends(cluster: Cluster, skewed: str, tmp_path: Path) -> None:
    before = replicas(cluster, skewed)
    with applying(cluster, planned(cluster, tmp_path), *SLOW) as process:
        assert "cancelled. No throttle is left." in done(cluster, "balance", "stop")
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "somebody has cancelled the move of" in error
    becomes(lambda: [sorted(each) for each in replicas(cluster, skewed)], [sorted(each) for each in before])
    assert throttles(cluster) == NOTHING
    assert not moving(cluster)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_an_execution_at_once(cluster: Cluster, skewed: str, tmp_path: Path, number: int) -> None:
    before = replicas(cluster, skewed)
    with applying(cluster, planned(cluster, tmp_path), *SLOW) as process:
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "cancelled. No throttle is left." in error
    assert throttles(cluster) == NOTHING
    becomes(lambda: [sorted(each) for each in replicas(cluster, skewed)], [sorted(each) for each in before])


def test_a_broker_is_drained_and_gets_its_share_again(cluster: Cluster, skewed: str, tmp_path: Path) -> None:
    done(cluster, "balance", "apply", str(planned(cluster, tmp_path)), "--disk-limit", "100")
    done(cluster, "balance", "apply", str(planned(cluster, tmp_path, "drain", "3")), "--disk-limit", "100")
    assert not any(3 in each for each in replicas(cluster, skewed))
    becomes(lambda: held(cluster)[3], (0, 0))
    done(cluster, "balance", "apply", str(planned(cluster, tmp_path, "join", "3")), "--disk-limit", "100")
    counts, sizes = zip(*held(cluster).values(), strict=True)
    count, size = held(cluster)[3]
    assert count >= LEAST_SHARE * sum(counts) / 3 - 1, "its share of the replicas of all topics"
    assert size >= LEAST_SHARE * sum(sizes) / 3 - LARGEST_BYTES, "and of their bytes"
    assert throttles(cluster) == NOTHING


def test_a_plan_that_the_cluster_refuses_leaves_no_throttle(cluster: Cluster, skewed: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": skewed, "partition": 0, "replicas": [1, 9]}]}))
    result = invoke(cluster, "balance", "apply", str(plan), "--disk-limit", "100")
    assert result.exit_code == 1
    assert "(INVALID_REPLICA_ASSIGNMENT)" in result.output
    assert throttles(cluster) == NOTHING


def test_throttles_that_others_decided_for_good_stay(cluster: Cluster, skewed: str) -> None:
    done(cluster, "configs", "alter", "-t", skewed, "--set", "leader.replication.throttled.replicas=*")
    with Client(cluster.bootstrap_servers) as client:
        balance_throttles.set_entries(client, [ThrottledMove(skewed, 0, (), (3,))])
        balance_throttles.set_rate(client, [2], 12345)
    assert throttles(cluster).lines() == [
        "broker 2: follower.replication.throttled.rate=12345, leader.replication.throttled.rate=12345",
        f"topic {skewed}: follower.replication.throttled.replicas=0:3",
    ]
    watched = invoke(cluster, "balance", "watch")
    assert watched.exit_code == 4
    assert "A throttle is left: broker 2: " in watched.output
    done(cluster, "balance", "stop")
    assert throttles(cluster) == NOTHING
    described = done(cluster, "configs", "describe", "-t", skewed)
    assert "leader.replication.throttled.replicas" in described


def test_a_file_that_is_no_plan_is_refused_in_one_line(cluster: Cluster, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("[]")
    result = invoke(cluster, "balance", "apply", str(plan))
    assert result.exit_code == 2
    assert f"{plan} is not a plan: it is not {{" in result.output
