"""A broker that runs already and belongs to somebody else (``--bootstrap-server``): tested, and left as it was.

A small choice of the suites runs in another pytest against a broker of this test. Not here: what the suites find.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from conftest import started
from foreign.outcomes import Outcome, Outcomes
from foreign.suite import Pytest
from kpywire.messages.metadata import MetadataRequest
from oracle import BrokerProcess
from support.raw_client import connect
from support.raw_requests import BROKER, configs_set
from support.targets import TARGETS
from support.waiting import eventually

HERE: Final = Path(__file__).resolve().parents[1]
SHARED: Final = (
    "produce/test_produce_and_read.py::test_each_client_reads_what_the_other_wrote",
    "admin/test_topic_life.py::test_a_topic_deleted_and_created_again_starts_empty",
    "admin/test_protocol_broker_configs.py::test_broker_configs_are_set_changed_and_deleted",
    "admin/test_confluent_admin.py::test_partitions_are_added",
)
"""The tests that any broker can be asked."""
OF_ITS_OWN: Final = (
    "admin/test_topic_life.py::test_no_topic_is_created_if_auto_creation_is_off",
    "admin/test_topic_life.py::test_records_and_topics_survive_a_clean_restart",
    "produce/test_sigkill_durability.py::test_a_few_kills_lose_nothing",
    "admin/test_protocol_log_dirs.py::test_a_partition_moves_while_it_is_written_and_read",
)
"""The tests that configure a broker, restart it, kill it, or need its files."""
SOMEBODY_ELSES: Final = "--bootstrap-server names one of somebody else"
UNTOUCHED: Final = "min.insync.replicas"
"""Apache Kafka sets it on all brokers by itself, for eligible leader replicas."""


class Borrowed(NamedTuple):
    """A broker on which the choice was run."""

    broker: BrokerProcess
    found: Outcomes

    def of(self, test: str) -> dict[str, Outcome]:
        """The outcomes of a test with all its parameters."""
        return {name: word for name, word in self.found.by_test.items() if name.partition("[")[0].endswith(test)}


@pytest.fixture(scope="module")
def borrowed(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Borrowed]:
    directory = tmp_path_factory.mktemp("somebody-elses")
    with TARGETS[startable_target](directory=directory / "broker") as broker:
        started.append(broker)
        suites = Pytest(
            python=Path(sys.executable),
            root=HERE.parent,
            tests=[f"{HERE.name}/{test}" for test in (*SHARED, *OF_ITS_OWN)],
            options=["--bootstrap-server", broker.bootstrap_servers],
        )
        yield Borrowed(broker, suites.run(directory, None))
        started.remove(broker)


@pytest.mark.parametrize("test", SHARED)
def test_tests_for_any_broker_pass(borrowed: Borrowed, test: str) -> None:
    assert set(borrowed.of(test).values()) == {"passed"}, borrowed.found


@pytest.mark.parametrize("test", OF_ITS_OWN)
def test_tests_that_need_an_own_broker_are_skipped_with_a_reason(borrowed: Borrowed, test: str) -> None:
    outcomes = borrowed.of(test)
    assert set(outcomes.values()) == {"skipped"}, borrowed.found
    assert all(SOMEBODY_ELSES in borrowed.found.reasons[each] for each in outcomes)


def test_the_broker_is_left_as_it_was(borrowed: Borrowed) -> None:
    assert borrowed.broker.process is not None
    assert borrowed.broker.process.poll() is None
    with connect(borrowed.broker.bootstrap_servers) as raw:

        def left() -> list[str]:
            topics = raw.call(MetadataRequest(topics=None), 9).topics
            return [str(topic.name) for topic in topics if not topic.is_internal]

        eventually(lambda: not left(), "every topic of the tests to be gone")
        node = str(raw.call(MetadataRequest(topics=[]), 9).brokers[0].node_id)
        assert {*configs_set(raw, BROKER, node), *configs_set(raw, BROKER, "")} <= {UNTOUCHED}
