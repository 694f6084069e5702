"""``kpybroker doctor`` and a damaged log, a client that never pauses, and checks that cannot be made."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from killable import Command, KillableBroker

from kpybroker.cli import doctor, examination, main, scrape
from kpybroker.cli.diagnoses import GOOD, PROBLEM, UNKNOWN, WARNING, Diagnosis
from kpybroker.cli.examination import ExaminedBroker
from kpybroker.client.client import Client, ClientSettings
from kpybroker.testing import Broker
from kpywire.messages.metadata import MetadataRequest


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableBroker]:
    """It serves a topic whose first segment of two has a damaged batch."""
    directory: Path = tmp_path_factory.mktemp("broker")
    with KillableBroker(directory) as running:
        with Command(running.server, "topics", "create", "bent", "-c", "segment.bytes=1048576") as creating:
            assert creating.end() == 0, creating.err
        with Command(running.server, "produce", "bent", "-X", "batch.size=1") as writing:
            for _ in range(3):
                writing.write("x" * 600_000)
            assert writing.end() == 0, writing.err
        running.end(signal.SIGTERM)
        log = directory / "data" / "bent-0" / "00000000000000000000.log"
        content = bytearray(log.read_bytes())
        content[1000] ^= 1
        log.write_bytes(content)
        yield running.start()


def findings(broker: KillableBroker, *words: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["doctor", "-b", broker.server, "--http", broker.http, "--json", *words])
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_a_damaged_batch_that_a_reader_met_is_a_problem_with_its_directory(broker: KillableBroker) -> None:
    def corrupt() -> dict[str, Any]:
        return next(each for each in findings(broker, "--patience", "0") if each["check"] == "corrupt batches")

    before = corrupt()
    assert before["level"] == GOOD
    assert "the last segment of a log is sent unchecked" in before["message"]
    with Command(broker.server, "consume", "bent", "-e", "-q") as reading:
        assert reading.end() == 1
    path = broker.directory / "data" / "bent-0"
    assert f"kpybroker check {path}" in reading.err[-1]
    assert f"What is damaged says: kpybroker check {path}" in broker.log_text()
    found = corrupt()
    assert found["level"] == PROBLEM
    assert found["message"] == f"broker 1: readers of bent-0 have met 1 damaged place in {path}"
    assert f"kpybroker check {path}" in found["remedy"]


def test_a_client_that_asks_for_metadata_without_a_pause_is_named(broker: KillableBroker) -> None:
    over = threading.Event()

    def ask() -> None:
        with Client(broker.server, settings=ClientSettings(client_id="restless")) as client:
            while not over.is_set():
                client.call(MetadataRequest(topics=[], allow_auto_topic_creation=False))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        found = [each for each in findings(broker, "--patience", "1") if each["check"] == "metadata requests"]
    finally:
        over.set()
        thread.join()
    assert found[0]["level"] == WARNING
    assert "the client 'restless' at 127.0.0.1 asks for metadata" in found[0]["message"]


def test_checks_that_could_not_be_made_are_counted_and_named_with_the_reason() -> None:
    with Broker() as running, socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        closed.close()
        words = ["doctor", "-b", running.bootstrap_servers, "--http", address, "--patience", "0"]
        last = CliRunner().invoke(main, words).stdout.splitlines()[-1]
    assert last.startswith("Nothing was found wrong; ")
    assert "checks could not be made: " in last
    assert "corrupt batches, metadata requests (no metrics page of broker 1 could be read)" in last.replace(
        "open files, clock, ", ""
    )


def test_doctor_lists_a_cause_before_its_effects() -> None:
    found = [Diagnosis(check, level, "") for check in ("groups", "brokers", "partitions") for level in (GOOD, PROBLEM)]
    found += [Diagnosis("advertised address", PROBLEM, ""), Diagnosis("log directories", WARNING, "")]
    ranked = [(each.level, each.check) for each in doctor.ranked(found)]
    problems = [check for level, check in ranked if level == PROBLEM]
    assert problems == ["brokers", "advertised address", "groups", "partitions"]
    assert ranked[len(problems)] == (WARNING, "log directories")


def test_a_check_that_failed_for_a_silent_broker_names_it() -> None:
    silent = {"10.0.0.3:9092": 3}
    failed = Diagnosis("groups", UNKNOWN, "could not be checked: no broker answers at 10.0.0.3:9092: refused")
    assert doctor.explained(failed, silent).message == "broker 3 does not answer, see above"
    for other in (failed._replace(message="could not be checked: refused"), failed._replace(level=GOOD)):
        assert doctor.explained(other, silent) == other


def test_pages_that_are_missing_are_named_by_their_brokers() -> None:
    page = scrape.MetricsPage("")
    found = [ExaminedBroker(number, "h", 9092, page if number == 2 else None, is_ours=True) for number in (1, 2, 3)]
    (missing,) = [each for each in examination.damage(found) if each.level == UNKNOWN]
    assert missing.message == "no metrics page of brokers 1, 3 could be read"
    assert [each.message[:9] for each in examination.damage(found) if each.level == GOOD] == ["broker 2:"]


@pytest.mark.parametrize(
    ("found", "log_text"),
    [
        ([Diagnosis("a", GOOD, "x")], "Nothing was found wrong."),
        (
            [Diagnosis("a", UNKNOWN, "no page"), Diagnosis("b", UNKNOWN, "no page"), Diagnosis("c", UNKNOWN, "gone")],
            "Nothing was found wrong; 3 checks could not be made: a, b (no page); c (gone).",
        ),
        (
            [Diagnosis("a", PROBLEM, "x", "y"), Diagnosis("b", UNKNOWN, "no page")],
            "1 problem, 0 warnings; 1 check could not be made: b (no page).",
        ),
    ],
)
def test_the_last_line_counts_findings_and_checks_that_were_left_out(found: list[Diagnosis], log_text: str) -> None:
    assert doctor.summary(found) == log_text


def test_names_with_control_characters_do_not_reach_the_terminal() -> None:
    found = Diagnosis("ACLs", WARNING, "User:\x1b[31mred\r from 'x'", "Remove \x1b[2J.")
    text = doctor.as_text([found])
    assert not [part for part in ("\x1b[31m", "\x1b[2J", "\r") if part in text]
    assert "User:\\x1b[31mred\\r" in text


def test_doctor_asks_a_broker_for_its_configs_and_topics_once(broker: KillableBroker) -> None:
    def requests() -> dict[str, float]:
        host, _, port = broker.http.partition(":")
        page = scrape.fetch(host, int(port), 10.0, scrape.Way())
        assert page is not None
        return {name: count for (name,), count in page.by_labels(examination.REQUESTS, "request").items()}

    before = requests()
    findings(broker, "--patience", "0")
    after = requests()
    grown = {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}
    assert {name: grown.get(name) for name in ("DescribeConfigs", "Metadata", "DescribeLogDirs")} == {
        "DescribeConfigs": 1,
        "Metadata": 1,
        "DescribeLogDirs": 1,
    }
