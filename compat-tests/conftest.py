"""Which broker the suites talk to, and topics of their own for every test.

``pytest compat-tests`` tests this environment's kpybroker, ``--kpybroker PATH`` that of another one, such as a compiled
wheel's; ``--target apache-kafka`` the oracle, ``--target container`` the same in a container, where a Docker engine
answers; ``--bootstrap-server HOST:PORT`` any broker: tests that start, kill or configure one are skipped there. A test
that fails on Apache Kafka is a wrong test.
"""

import re
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from confluent_kafka.admin import AdminClient

from kpybroker.machines.zookeeper.broker import apis
from oracle import BrokerProcess
from oracle.container import ContainedKafka, why_not
from support import spark_formats, spark_versions, tiered_skips, zookeeper_mode_skips
from support.clients import CLIENTS, Client, Confluent
from support.clusters import KpyNode
from support.java_tools import JavaTools
from support.own_process import pytest_pyfunc_call  # noqa: F401  a hook
from support.raw_client import RawClient, connect
from support.targets import EXTERNAL, IN_ZOOKEEPER_MODE, TARGETS, TIERED, KpyBroker
from support.topics import create_topic, delete_topics
from support.zookeeper_clusters import KpyOnZooKeeper
from support.zookeeper_mode_skips import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.spark_pipeline import Batch, Pipeline


started: list[BrokerProcess] = []
no_spark = pytest.StashKey[str]()


class StartBroker(Protocol):
    def __call__(self, **properties: str) -> BrokerProcess: ...


class NewTopic(Protocol):
    def __call__(self, partitions: int = 1, **configs: str) -> str: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("target", "the broker that the suites test")
    group.addoption("--target", choices=sorted(TARGETS), default="kpybroker", help="the broker to test")
    group.addoption("--kpybroker", metavar="PATH", type=Path, help="the kpybroker command, of another environment")
    group.addoption("--image", default=ContainedKafka.image, help="with --target container: Kafka's image")
    group.addoption("--bootstrap-server", metavar="HOST:PORT", help="test a broker that runs already, instead")
    group = parser.getgroup("kills and upgrades")
    group.addoption("--kills", type=int, default=40, help="how often the long durability test kills the broker")
    group.addoption("--upgrades", type=int, default=1, help="how often a cluster is upgraded, and back before the next")
    group.addoption("--every-level", action="store_true", help="clusters of both programs begin at every level")
    group.addoption("--seed", type=int, default=0, help="seed of the moments at which brokers are killed")
    group = parser.getgroup("spark")
    group.addoption("--spark", choices=sorted(spark_versions.VERSIONS), help="Spark's version, if not the installed")
    group.addoption(
        "--spark-format", choices=spark_formats.FORMATS, default=spark_formats.KAFKA, help="the source Spark reads with"
    )
    group.addoption(
        "--option-sets", type=int, default=48, help="how many sets of options Spark's sources are compared by"
    )
    group = parser.getgroup("consoles")
    group.addoption("--kafdrop", metavar="JAR", type=Path, help="Kafdrop, built elsewhere, for the tests of consoles")
    group.addoption("--redpanda-console", metavar="PATH", type=Path, help="Redpanda Console's program, likewise")
    group = parser.getgroup("recording")
    group.addoption("--record", action="store_true", help="write what Apache Kafka does into expected/")


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("--kpybroker", default=None)
    if chosen is not None:
        KpyBroker.path = KpyNode.path = KpyOnZooKeeper.path = chosen.absolute()
    if config.getoption("--target", default=None) in IN_ZOOKEEPER_MODE:
        RawClient.newest = {key: newest for key, (_, newest) in apis.FROM_THE_CONTROLLER.items()} | apis.NEWEST
    spark_formats.chosen = config.getoption("--spark-format", default=spark_formats.KAFKA)
    if (version := config.getoption("--spark", default=None)) is not None:
        try:
            spark_versions.use(version)
        except spark_versions.UnavailableError as problem:
            config.stash[no_spark] = str(problem)
    ContainedKafka.image = config.getoption("--image", default=ContainedKafka.image)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of what a broker in ZooKeeper mode, or with its logs in a store, does not have are skipped there, each with
    its reason."""
    target = config.getoption("--target", default=None)
    if target not in (*IN_ZOOKEEPER_MODE, TIERED):
        return
    skipped = tiered_skips.SKIPPED if target == TIERED else zookeeper_mode_skips.SKIPPED
    for item in items:
        if (why := reason(item.nodeid, skipped)) is not None:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the brokers wrote last beside a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"Output of {broker.program} on port {broker.port}", broker.tail()) for broker in started]
    return report


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """``kpybroker``, ``apache-kafka``, ``container`` or ``external``."""
    if request.config.getoption("--bootstrap-server"):
        return EXTERNAL
    chosen = str(request.config.getoption("--target"))
    missing = why_not() if chosen == "container" else None
    if missing is not None:
        pytest.skip(missing)
    return chosen


@pytest.fixture(scope="session")
def startable_target(target: str) -> str:
    """The target, for tests that start, stop or configure a broker."""
    if target == EXTERNAL:
        pytest.skip("needs a broker of its own, and --bootstrap-server names one of somebody else")
    return target


@pytest.fixture(scope="session")
def in_zookeeper_mode(target: str) -> bool:
    """Whether Apache Kafka 3.9 in ZooKeeper mode is the reference."""
    return target in IN_ZOOKEEPER_MODE


@pytest.fixture(scope="session")
def bootstrap_servers(
    request: pytest.FixtureRequest, target: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of the broker that the tests share."""
    if target == EXTERNAL:
        yield str(request.config.getoption("--bootstrap-server"))
        return
    with TARGETS[target](directory=tmp_path_factory.mktemp("broker")) as broker:
        started.append(broker)
        yield broker.bootstrap_servers
        started.remove(broker)


@pytest.fixture
def start_broker(startable_target: str, tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers of the test's own, configured by keywords with ``_`` for ``.``; they end with the test."""
    with ExitStack() as brokers:

        def start(**properties: str) -> BrokerProcess:
            directory = tmp_path / f"broker-{secrets.token_hex(3)}"
            named = {key.replace("_", "."): value for key, value in properties.items()}
            broker = brokers.enter_context(TARGETS[startable_target](named, directory=directory))
            started.append(broker)
            brokers.callback(started.remove, broker)
            return broker

        yield start


@pytest.fixture
def raw(bootstrap_servers: str) -> Iterator[RawClient]:
    """A connection on which a test says every byte itself."""
    with connect(bootstrap_servers) as client:
        yield client


@pytest.fixture(scope="session")
def admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers})


@pytest.fixture(scope="session")
def _topics_to_delete(admin: AdminClient) -> Iterator[list[str]]:
    names: list[str] = []
    yield names
    delete_topics(admin, names)


@pytest.fixture
def unused_topic(request: pytest.FixtureRequest, _topics_to_delete: list[str]) -> Callable[[], str]:
    """Names of topics that do not exist; what a test creates under them is deleted at the end."""
    stem = re.sub(r"[^a-zA-Z0-9.-]+", "-", request.node.name)[:80].strip("-.")

    def invent() -> str:
        name = f"{stem}-{secrets.token_hex(4)}"
        _topics_to_delete.append(name)
        return name

    return invent


@pytest.fixture
def new_topic(admin: AdminClient, unused_topic: Callable[[], str]) -> NewTopic:
    """Creates topics, ready to be written to; configs are keywords with ``_`` for ``.``."""

    def create(partitions: int = 1, **configs: str) -> str:
        name = unused_topic()
        create_topic(admin, name, partitions, {key.replace("_", "."): value for key, value in configs.items()})
        return name

    return create


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """A topic with one partition."""
    return new_topic()


@pytest.fixture(scope="session")
def java_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaTools]:
    """Kafka's Java tools, in one JVM for all tests."""
    with JavaTools(tmp_path_factory.mktemp("java-tools") / "log") as tools:
        yield tools


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A Spark session with the Kafka connector, one for all tests."""
    from support.spark_session import small_spark

    if reason := pytestconfig.stash.get(no_spark, None):
        pytest.skip(reason)
    with ExitStack() as stack:
        try:
            session = stack.enter_context(small_spark(tmp_path_factory.mktemp("spark")))
        except spark_versions.UnavailableError as problem:
            pytest.skip(str(problem))
        asked = pytestconfig.getoption("--spark")
        assert asked in (None, session.version), f"asked for Spark {asked}, and got {session.version}"
        if spark_formats.chosen == spark_formats.KAFKA and not spark_versions.connector(session.version):
            pytest.skip(f"Spark {session.version} has no Kafka connector; --spark-format kpybroker needs none")
        if spark_formats.is_ours() and spark_formats.version(session) < (4, 0):
            pytest.skip("Spark has data sources in Python, such as kpybroker's, since 4.0")
        yield session


@pytest.fixture
def kafka_sink(spark: "SparkSession") -> None:
    """For tests that write with Spark's own sink."""
    if not spark_versions.connector(spark.version):
        pytest.skip(f"Spark {spark.version} has no Kafka connector, so it has no sink")


@pytest.fixture
def read(spark: "SparkSession", bootstrap_servers: str) -> "Batch":
    """Opens a topic as a batch query of Spark."""
    from support.spark_pipeline import Batch

    return Batch(spark, bootstrap_servers)


@pytest.fixture
def pipeline(spark: "SparkSession", bootstrap_servers: str, tmp_path: Path) -> Callable[..., "Pipeline"]:
    """Makes a streaming query of Spark with the options of its source, and a checkpoint of the test's own."""
    from support.spark_pipeline import Pipeline

    return partial(Pipeline, spark, bootstrap_servers, tmp_path)


@pytest.fixture
def confluent(bootstrap_servers: str) -> Confluent:
    return Confluent(bootstrap_servers)


@pytest.fixture(params=sorted(CLIENTS))
def client(request: pytest.FixtureRequest, bootstrap_servers: str) -> Client:
    """Each of the Python clients in turn, behind one small interface."""
    return CLIENTS[request.param](bootstrap_servers)
