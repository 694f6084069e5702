"""A choice of the suites on a broker with all but the newest batch of each log in a store (`make tiered-suites` plays
all), and the list of tests that are not played there."""

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from foreign.suite import Pytest
from support.raw_client import connect
from support.raw_requests import create, offset_at
from support.special_timestamps import EARLIEST, EARLIEST_LOCAL
from support.targets import TARGETS, TIERED
from support.tiered_skips import SKIPPED
from support.waiting import eventually
from tiered.filling import fill

HERE: Final = Path(__file__).resolve().parents[1]
CHOICE: Final = (
    "fetch/test_confluent_consumer.py::test_assign_at_an_offset_seek_and_rewind",
    "fetch/test_protocol_offsets.py::test_log_append_times_are_found_at_the_first_record_of_their_batch",
    "produce/test_produce_and_read.py::test_each_client_reads_what_the_other_wrote",
    "transactions/test_transactions_clients.py::test_commits_are_read_and_aborts_are_not",
)


@pytest.fixture(autouse=True)
def _of_kpybroker(target: str) -> None:
    if target != "kpybroker":
        pytest.skip("starts a broker with its logs in a store, whatever the target")


def test_suites_of_clients_pass_on_a_broker_with_its_logs_in_a_store(tmp_path: Path) -> None:
    tests = [f"{HERE.name}/{test}" for test in CHOICE]
    suites = Pytest(python=Path(sys.executable), root=HERE.parent, tests=tests, options=["--target", TIERED])
    found = suites.run(tmp_path, None)
    assert set(found.by_test.values()) == {"passed"}, (found.reasons, (tmp_path / "pytest.log").read_text()[-4000:])
    for test in CHOICE:
        assert [name for name in found.by_test if test.partition("::")[2] in name]


def test_the_disk_of_that_broker_has_the_newest_batch_alone(tmp_path: Path) -> None:
    with TARGETS[TIERED](directory=tmp_path / "broker") as broker, connect(broker.bootstrap_servers) as raw:
        create(raw, "t")
        fill(raw, "t", range(3))
        eventually(lambda: offset_at(raw, "t", EARLIEST_LOCAL)[2] == 4, "two batches to be in the store alone")
        assert offset_at(raw, "t", EARLIEST)[2] == 0


def test_tests_that_are_skipped_exist() -> None:
    for beginning in (each for beginnings in SKIPPED.values() for each in beginnings):
        file, _, test = beginning.partition("::")
        (text,) = (each.read_text() for each in HERE.rglob(file))
        assert not test or re.search(rf"^def {re.escape(test.partition('[')[0])}", text, re.MULTILINE), beginning
