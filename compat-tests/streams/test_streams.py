"""Kafka Streams with ``exactly_once_v2``: two instances, killed and started again, the broker killed under both.

The application groups payments by account, through a repartition topic, into a state store with a changelog. Each
payment changes the output once: an account's counts are 1, 2, 3 … and its last sum is that of what was sent.
"""

import random
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from conftest import StartBroker
from kpybroker.client.client import Client
from kpybroker.client.group_listing import list_groups
from oracle import BrokerProcess, compile_java
from oracle.jars import BUILD, KAFKA_VERSION, jvm
from oracle.maven import copied
from oracle.process import die_with_parent
from support.topics import create_topic
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

HERE = Path(__file__).resolve().parents[1]
PARTITIONS = 3
ACCOUNTS = 20
SETTINGS = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
}


class Payments(threading.Thread):
    """Pays amounts to accounts, some hundred a second, until told to stop; remembers what."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(name="payments", daemon=True)
        self.sent: dict[str, list[int]] = defaultdict(list)
        self.count = 0
        self._stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0})

    def run(self) -> None:
        rng = random.Random(4)
        while not self._stopping.wait(0.02):
            for _ in range(5):
                account, amount = f"account-{rng.randrange(ACCOUNTS)}", rng.randrange(1, 10_000)
                self._producer.produce("payments", f"{account} {amount}".encode(), key=str(self.count).encode())
                self.sent[account].append(amount)
                self.count += 1
            self._producer.poll(0)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self.start()
        try:
            yield
        finally:
            self._stopping.set()
            self.join(30)
            assert self._producer.flush(60) == 0


class Totals:
    """The part of the output that a reader of committed records has seen."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.count = 0
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "log_level": 0}
        settings |= {"isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition("totals", partition, 0) for partition in range(PARTITIONS)])

    def reach(self, count: int) -> bool:
        """Whether it has seen at least this number."""
        polled: list[Any] = self._consumer.consume(1_000, 0.2)
        for message in polled:
            if message.error() is None:
                payments, total = map(int, message.value().split())
                self.seen[message.key().decode()].append((payments, total))
                self.count += 1
        return self.count >= count

    def close(self) -> None:
        self._consumer.close()


class Instance:
    """One instance of the application in a JVM of its own."""

    def __init__(self, directory: Path, bootstrap_servers: str, protocol: str, *settings: str) -> None:
        self.output = directory / "output.log"
        jars = copied(
            Path(__file__).with_name("streams_pom.xml"),
            BUILD / f"streams-{KAFKA_VERSION}",
            f"-Dkafka.version={KAFKA_VERSION}",
        )
        classes = compile_java(HERE / "java" / "AccountTotals.java", jars / "*")
        self._command = [*jvm(classes, jars / "*", heap="384m"), "AccountTotals"]
        self._command += [bootstrap_servers, "account-totals", str(directory / "state"), "payments", "totals", protocol]
        self._command += settings
        directory.mkdir()
        self.start()

    def start(self) -> None:
        with open(self.output, "ab") as output:
            self.process = Popen(self._command, stdout=output, stderr=STDOUT, preexec_fn=die_with_parent)

    def times(self, state: str) -> int:
        """How often it has come into a state."""
        return self.output.read_text(errors="replace").splitlines().count(f"state {state}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except BaseException:
            self.kill()
            raise


@contextmanager
def instance(directory: Path, bootstrap_servers: str, protocol: str = "classic", *settings: str) -> Iterator[Instance]:
    """``settings`` of the application are ``name=value``."""
    started = Instance(directory, bootstrap_servers, protocol, *settings)
    try:
        yield started
    except BaseException:
        print(started.output.read_text(errors="replace")[-6_000:])
        started.kill()
        raise
    started.end()


SHORT = ("instance", "broker")
LONG = tuple(random.Random(6).choices(("instance", "broker", "both instances", "broker and instance"), k=12))


def strike(target: str, broker: BrokerProcess, instances: Sequence[Instance]) -> None:
    """SIGKILL, all of them before the first is started again."""
    dying = instances if "instances" in target else instances[1:] if "instance" in target else ()
    for each in dying:
        each.kill()
    if "broker" in target:
        broker.restart(kill=True)
    for each in dying:
        each.start()


@pytest.mark.parametrize(
    ("protocol", "kills"),
    [
        pytest.param("classic", SHORT, id="classic-short"),
        pytest.param("classic", LONG, id="classic-long", marks=pytest.mark.slow),
        pytest.param("streams", ("broker and instance",), id="streams-short"),
        pytest.param("streams", LONG, id="streams-long", marks=pytest.mark.slow),
    ],
)
def test_totals_are_exact_though_instances_and_the_broker_are_killed(
    start_broker: StartBroker, tmp_path: Path, protocol: str, kills: Sequence[str]
) -> None:
    broker = start_broker(**SETTINGS)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for topic in ("payments", "totals"):
        create_topic(admin, topic, PARTITIONS)
    payments, totals = Payments(broker.bootstrap_servers), Totals(broker.bootstrap_servers)
    with ExitStack() as stack:
        stack.callback(totals.close)
        instances = [
            stack.enter_context(instance(tmp_path / name, broker.bootstrap_servers, protocol))
            for name in ("one", "other")
        ]
        with payments.going_on():
            for each in instances:
                eventually(partial(each.times, "RUNNING"), "both instances", 120)
            eventually(partial(totals.reach, payments.count), "the first totals", 90)
            for target in kills:
                strike(target, broker, instances)
                eventually(partial(totals.reach, payments.count), f"totals after the kill of {target}", 180)
        eventually(partial(totals.reach, payments.count), "the last totals", 120)
        names = set(admin.list_topics(timeout=30).topics)
        with Client(broker.bootstrap_servers) as client:
            kinds = {group.group_id: group.group_type for group in list_groups(client)}
        assert kinds["account-totals"] == protocol
    assert {"account-totals-by-account-repartition", "account-totals-totals-changelog"} <= names
    counts = {account: [count for count, _ in seen] for account, seen in totals.seen.items()}
    assert counts == {account: [*range(1, len(amounts) + 1)] for account, amounts in payments.sent.items()}
    sums = {account: seen[-1][1] for account, seen in totals.seen.items()}
    assert sums == {account: sum(amounts) for account, amounts in payments.sent.items()}
