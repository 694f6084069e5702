"""The short form: kafka-python's own tests against kpybroker, and what the lists and their readers promise."""

import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from foreign import outcomes, packages
from foreign.__main__ import serving
from foreign.franz_go import read_events
from foreign.kafka_python import KAFKA_PYTHON_3
from foreign.librdkafka import LIBRDKAFKA_CLUSTER, broker_tests, read_summary
from foreign.outcomes import Outcomes
from foreign.packages import Unavailable
from foreign.suites import SUITES
from kpywire.messages.metadata import MetadataRequest
from support.raw_client import connect
from support.targets import IN_ZOOKEEPER_MODE, TARGETS
from support.waiting import eventually


@pytest.fixture
def kafka_pythons_tests(target: str, tmp_path: Path) -> Iterator[Outcomes]:
    """The outcomes of the tests on kafka-python's list."""
    if target == "external":
        pytest.skip("counts on a broker of its own")
    try:
        KAFKA_PYTHON_3.prepare()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with TARGETS[target](dict(KAFKA_PYTHON_3.broker), directory=tmp_path / "broker") as broker:
        wanted = outcomes.expected(KAFKA_PYTHON_3.name)
        yield KAFKA_PYTHON_3.run(broker.bootstrap_servers, tmp_path, wanted)


NEEDS_KRAFT = (
    "test_describe_metadata_quorum",
    "test_describe_topic_partitions",
    "test_describe_topic_partitions_pagination",
    "test_kafka_version_infer",
    "test_list_config_resources",
)
"""The tests of kafka-python that ask for APIs which a listener in ZooKeeper mode has not, or for the version 4.3."""


def test_kafka_pythons_own_tests_pass(target: str, kafka_pythons_tests: Outcomes) -> None:
    wanted = outcomes.expected(KAFKA_PYTHON_3.name)
    assert len(wanted) >= 50
    if target in IN_ZOOKEEPER_MODE:
        wanted = [each for each in wanted if each.rpartition("::")[2] not in NEEDS_KRAFT]
    assert outcomes.missing(wanted, kafka_pythons_tests.by_test) == [], kafka_pythons_tests.reasons


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_every_suite_has_a_sorted_list_without_repetitions(suite: str) -> None:
    listed = outcomes.expected(suite)
    assert listed
    assert listed == sorted(set(listed))


def test_lists_grow_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "LISTS", tmp_path)
    assert outcomes.expected("new") == []
    assert outcomes.record("new", ["b", "a"]) == ["a", "b"]
    assert outcomes.record("new", ["c"]) == ["c"]
    assert outcomes.expected("new") == ["a", "b", "c"]


def test_a_suite_is_given_as_many_brokers_as_it_expects(tmp_path: Path) -> None:
    with serving(LIBRDKAFKA_CLUSTER, "kpybroker", tmp_path) as bootstrap_servers:
        addresses = bootstrap_servers.split(",")
        with connect(addresses[0]) as raw:
            eventually(lambda: len(raw.call(MetadataRequest(topics=[]), 9).brokers) == len(addresses), "all brokers")
    assert len(addresses) == LIBRDKAFKA_CLUSTER.nodes == 3


def test_a_suite_that_wants_a_cluster_says_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no cluster"), serving(LIBRDKAFKA_CLUSTER, "container", tmp_path):
        pass


def test_skipped_tests_do_not_count_as_passed() -> None:
    assert outcomes.missing(["a", "b", "c"], {"a": "passed", "b": "skipped"}) == ["b", "c"]


def test_a_second_run_replaces_what_the_first_brought() -> None:
    found, again = Outcomes(), Outcomes()
    found.add("a", "failed", "timed\nout")
    found.add("b", "failed", "broken")
    again.add("a", "passed")
    found.update(again)
    assert (found.those("passed"), found.reasons) == (["a"], {"b": "broken"})


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive whose content is not in one folder, as Apicurio Registry's."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "program.jar").write_text("program")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as tar:
        for member in ("lib", "program.jar"):
            tar.add(tmp_path / member, member)
    return tmp_path / "archive.tar.gz"


def test_an_archive_is_unpacked_where_it_has_the_pinned_hash(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "BUILD", tmp_path / "build")
    monkeypatch.setattr(packages, "needed", lambda _: "mvn")
    monkeypatch.setattr(packages, "call", lambda _, cwd: shutil.copy(archive, cwd))
    pinned = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(Unavailable, match=pinned):
        packages.maven_archive("group:name:1.0:tar.gz:all", archive.name, "0" * 64)
    content = packages.maven_archive("group:name:1.0:tar.gz:all", archive.name, pinned)
    assert sorted(path.name for path in content.iterdir()) == ["lib", "program.jar"]


def test_librdkafkas_table_names_tests_of_each_scenario() -> None:
    table = """
    struct test tests[] = {
        _TEST(0001_plain, 0),
        _TEST(0002_local, TEST_F_LOCAL),
        _TEST(0003_wide,
              0,
              TEST_BRKVER(1, 0, 0, 0), .scenario = "special"),
        _TEST(0004_known, TEST_F_KNOWN_ISSUE | TEST_F_SOCKEM), _TEST(0005_mock, 0), _TEST(1000_apart, 0),
        _TEST(0171_share_consumer, 0), _TEST(0182_share_consumer_mock, 0),
    };"""
    assert broker_tests(table, "default") == ["0001_plain"]
    assert broker_tests(table, "special") == ["0003_wide"]
    assert broker_tests(table, "default", shares=True) == ["0171_share_consumer"]


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ("| 0001_plain     |     PASSED |   0.1s |", "passed"),
        ("| 0001_plain     |    SKIPPED |   0.0s | no broker of version 9", "skipped"),
        ("| 0001_plain     |     FAILED |   0.1s |", "failed"),
        ("test-runner: test.c:7706: Assertion `0' failed.", "failed"),
        ("", "failed"),
    ],
)
def test_librdkafkas_summary_is_read(log: str, outcome: str) -> None:
    assert read_summary("0001_plain", log).by_test == {"0001_plain": outcome}


def test_a_go_test_that_never_ended_has_failed(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.write_text(
        '{"Action":"run","Test":"TestA"}\n{"Action":"pass","Test":"TestA"}\n{"Action":"run","Test":"TestB"}\n'
    )
    assert read_events(events).by_test == {"TestA": "passed", "TestB": "failed"}
