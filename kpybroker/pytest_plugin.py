"""The pytest plugin: a broker for the session, a fresh topic for each test, more brokers and a cluster on demand,
readable diffs.

Loaded into every pytest run where kpybroker is installed, so it imports nothing of the broker until a fixture of it is
asked for, adds no option to the command line, and touches no test that does not ask.

``kpybroker_scope`` in pytest's configuration is how long the shared broker lives: ``session`` (default), ``package``,
``module``, ``class`` or ``function``. With pytest-xdist each worker has its own.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kpybroker.testing import Broker, Cluster, OidcProvider, Security

SCOPE = "kpybroker_scope"
MARKER = "kafka_topic"
LONGEST_TOPIC_NAME = 200
PACKAGES = ("kpybroker", "kpywire", "kpystorage")
RECORDS = "kpybroker.testing.records"
_SHARED = pytest.StashKey["list[Broker]"]()
_TOPICS = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the one setting; and keep pytest from rewriting the broker's modules.

    pytest rewrites the assertions in all packages of a distribution that has a plugin, which makes importing a broker
    five times as slow. If a later pytest ignores this, imports are only slow.
    """
    rewritten = getattr(pluginmanager.rewrite_hook, "_must_rewrite", None)
    if isinstance(rewritten, set):
        rewritten.difference_update(PACKAGES)
    parser.addini(SCOPE, "how long the kpybroker fixture's broker lives: session, package, module, class, function")


def pytest_configure(config: pytest.Config) -> None:
    """Register the one marker."""
    config.addinivalue_line("markers", f"{MARKER}(partitions=1, config=None): how the `topic` fixture makes its topic")


def _scope(fixture_name: str, config: pytest.Config) -> Any:
    del fixture_name
    return config.getini(SCOPE) or "session"


@contextmanager
def _shared(broker: "Broker", config: pytest.Config) -> Iterator[None]:
    """Repair a broker after each test of this block."""
    brokers = config.stash.setdefault(_SHARED, [])
    brokers.append(broker)
    try:
        yield
    finally:
        brokers.remove(broker)


@pytest.fixture(scope="session")
def kpybroker_options() -> dict[str, Any]:
    """The options of the shared broker: keywords of `kpybroker.testing.Broker`. Override it in a conftest.py."""
    return {}


@pytest.fixture(scope=_scope)
def kpybroker(kpybroker_options: dict[str, Any], pytestconfig: pytest.Config) -> "Iterator[Broker]":
    """A running broker, shared by tests: in memory, on a free port, in a thread. Injected faults end with the test."""
    from kpybroker.testing import Broker

    with Broker(**kpybroker_options) as broker, _shared(broker, pytestconfig):
        yield broker


@pytest.fixture
def kpybroker_factory() -> "Iterator[Callable[..., Broker]]":
    """Starts brokers of the test's own, ``kpybroker_factory({"num.partitions": 3})``, and stops them after it."""
    from kpybroker.testing import Broker

    started: list[Broker] = []

    def start(*arguments: Any, **options: Any) -> Broker:
        broker = Broker(*arguments, **options).start()
        started.append(broker)
        return broker

    yield start
    for broker in reversed(started):
        broker.stop()


@pytest.fixture(scope="session")
def kpybroker_security() -> "Security":
    """The security of the shared broker with users. Override it in a conftest.py."""
    from kpybroker.testing import Security

    return Security(users=["alice", "bob"])


@pytest.fixture(scope=_scope)
def kpybroker_secured(
    kpybroker_security: "Security", kpybroker_options: dict[str, Any], pytestconfig: pytest.Config
) -> "Iterator[Broker]":
    """A running broker with users and certificates, shared by tests; ``kpybroker_secured.access`` has the settings of
    their clients."""
    from kpybroker.testing import Broker

    with Broker(**kpybroker_options, security=kpybroker_security) as broker, _shared(broker, pytestconfig):
        yield broker


@pytest.fixture(scope="session")
def kafka_cluster_options() -> dict[str, Any]:
    """The options of the shared cluster: keywords of `kpybroker.testing.Cluster`. Override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def _shared_cluster(kafka_cluster_options: dict[str, Any]) -> "Iterator[Cluster]":
    from kpybroker.testing import Cluster

    with Cluster(**kafka_cluster_options) as cluster:
        yield cluster


@pytest.fixture
def kafka_cluster(_shared_cluster: "Cluster") -> "Cluster":
    """Three brokers in processes of their own, shared by tests. Brokers that a test ended are started again for the
    next one."""
    _shared_cluster.heal()
    return _shared_cluster


@pytest.fixture
def oidc_provider() -> "Iterator[OidcProvider]":
    """An OpenID Connect provider of the test's own, for logins by OAUTHBEARER: it signs tokens, and fails on demand."""
    from kpybroker.testing import OidcProvider

    with OidcProvider() as provider:
        yield provider


@pytest.fixture
def topic(kpybroker: "Broker", request: pytest.FixtureRequest) -> str:
    """The name of a new topic of this test alone, on the shared broker."""
    marker = request.node.get_closest_marker(MARKER)
    number = request.config.stash.get(_TOPICS, 0) + 1
    request.config.stash[_TOPICS] = number
    name = re.sub(r"[^\w.-]", "-", request.node.name, flags=re.ASCII)[:LONGEST_TOPIC_NAME]
    return kpybroker.create_topic(f"{name}-{number}", *marker.args if marker else (), **marker.kwargs if marker else {})


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Repair the shared brokers after a test that broke parts of them."""
    for broker in item.config.stash.get(_SHARED, ()):
        if broker.is_running:
            broker.faults.clear()


def pytest_assertrepr_compare(op: str, left: object, right: object) -> Sequence[str] | None:
    """Explain how two lists of records differ, record by record."""
    records = sys.modules.get(RECORDS)
    if records is None or op != "==" or not (isinstance(left, list) and isinstance(right, list)):
        return None
    if not any(isinstance(one, records.Record) for one in [*left[:1], *right[:1]]):
        return None
    found, expected = (left, right) if left and isinstance(left[0], records.Record) else (right, left)
    if not all(isinstance(one, records.Record) for one in found):
        return None
    lines: list[str] = records.differences(expected, found)
    return lines or None
