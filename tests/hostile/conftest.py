"""One broker that the whole suite attacks, an honest client beside the attackers, and what must hold after each test.

After every test the broker lives, the honest client was answered all the time, the log shows no defect, every
connection that the attackers opened is gone, and memory is back below a generous bound.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attacker import Attacker, create_topic
from bystander import Bystander
from under_attack import UnderAttack
from watched import PATIENCE_S, WatchedBroker

from support.targets import KpyBroker

BYSTANDERS_TOPIC = "bystander"

StartBroker = Callable[..., WatchedBroker]


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.getoption("--hostile-kpybroker")
    if chosen is not None:
        KpyBroker.path = Path(chosen).absolute()


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    """How long the attacks with generated input are, in units of what continuous integration does."""
    return int(request.config.getoption("--hostile-rounds"))


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of all generated input."""
    return int(request.config.getoption("--hostile-seed"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """The broker under attack, with the configuration it has when nobody configures it."""
    with WatchedBroker({}, directory=tmp_path_factory.mktemp("hostile")) as broker:
        yield broker


@pytest.fixture(scope="session")
def bystander(broker: WatchedBroker) -> Iterator[Bystander]:
    """The honest client."""
    with Attacker(broker.port) as client:
        create_topic(client, BYSTANDERS_TOPIC)
    bystander = Bystander(broker.port, BYSTANDERS_TOPIC, PATIENCE_S)
    yield bystander
    bystander.stop()


@pytest.fixture
def target(broker: WatchedBroker, bystander: Bystander) -> Iterator[WatchedBroker]:
    """The broker under attack; what must hold afterwards is checked when the test is over."""
    with UnderAttack(broker, bystander).holds():
        yield broker


@pytest.fixture
def attacker(target: WatchedBroker) -> Iterator[Attacker]:
    """One connection to the broker under attack."""
    with Attacker(target.port) as client:
        yield client


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts a broker of the test's own, with limits that are small enough to be reached."""
    started: list[WatchedBroker] = []

    def start(*, open_files: int | None = None, with_http: bool = False, **properties: str) -> WatchedBroker:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        directory = tmp_path / f"broker{len(started)}"
        broker = WatchedBroker(named, directory=directory, open_files=open_files, with_http=with_http)
        started.append(broker)
        return broker.__enter__()

    yield start
    for broker in started:
        alive, defects = broker.is_alive, broker.defects_since(0)
        tail = broker.tail()
        broker.__exit__(None, None, None)
        assert alive, f"the broker ended: {tail}"
        assert not defects
