"""A choice of the suites on a broker in ZooKeeper mode (`make compat-zookeeper` plays all), and the list of tests that
are not played there."""

import re
import sys
from pathlib import Path
from typing import Final

import pytest

from foreign.suite import Pytest
from support.targets import ON_ZOOKEEPER
from support.zookeeper_mode_skips import SKIPPED, reason

HERE: Final = Path(__file__).resolve().parents[1]
CHOICE: Final = (
    "produce/test_produce_and_read.py::test_each_client_reads_what_the_other_wrote",
    "admin/test_topic_life.py::test_a_topic_deleted_and_created_again_starts_empty",
    "admin/test_confluent_admin.py::test_partitions_are_added",
    "admin/test_protocol_configs.py::test_configs_are_set_and_deleted_one_by_one",
    "transactions/test_transactions_clients.py::test_commits_are_read_and_aborts_are_not",
)


@pytest.mark.java
def test_suites_of_clients_pass_on_a_broker_in_zookeeper_mode(target: str, tmp_path: Path) -> None:
    if target != "kpybroker":
        pytest.skip("starts a broker in ZooKeeper mode, whatever the target")
    suites = Pytest(
        python=Path(sys.executable),
        root=HERE.parent,
        tests=[f"{HERE.name}/{test}" for test in CHOICE],
        options=["--target", ON_ZOOKEEPER],
    )
    found = suites.run(tmp_path, None)
    assert set(found.by_test.values()) == {"passed"}, (found.reasons, (tmp_path / "pytest.log").read_text()[-4000:])
    for test in CHOICE:
        assert [name for name in found.by_test if test.partition("::")[2] in name]


def test_skipped_tests_of_the_target_exist() -> None:
    for beginnings in SKIPPED.values():
        for beginning in beginnings:
            file, _, test = beginning.partition("::")
            (text,) = (each.read_text() for each in HERE.rglob(file))
            assert not test or re.search(rf"^def {re.escape(test.partition('[')[0])}", text, re.MULTILINE), beginning


@pytest.mark.parametrize(
    ("test", "is_skipped"),
    [
        ("compat-tests/groups/test_share_groups.py::test_records", True),
        ("groups/test_share_groups.py::test_records[a/b]", True),
        ("compat-tests/produce/test_produce_and_read.py::test_share_groups.py", False),
    ],
)
def test_a_test_is_skipped_by_its_file_or_name(test: str, is_skipped: bool) -> None:
    assert (reason(test) is not None) is is_skipped
