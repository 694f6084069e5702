"""``consume`` and ``produce`` while their broker is away, and when it is back on the same port."""

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from killable import Command, KillableBroker

from kpybroker.cli.contact import Contact
from kpybroker.client import connection
from kpybroker.client.client import Client
from kpybroker.client.connection import BrokerConnection, Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

BACK = "The broker is back after "


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableBroker]:
    with KillableBroker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def create(broker: KillableBroker, name: str) -> str:
    with Command(broker.server, "topics", "create", name) as creating:
        assert creating.end() == 0, creating.err
    return name


def read(broker: KillableBroker, topic: str) -> list[str]:
    with Command(broker.server, "consume", topic, "-e") as reading:
        assert reading.end() == 0, reading.err
        return reading.out


def away(lines: list[str]) -> list[str]:
    return [line for line in lines if "waiting for it." in line or "records wait for it" in line]


def test_a_reader_says_that_the_broker_is_gone_and_that_it_is_back_and_reads_on(broker: KillableBroker) -> None:
    topic = create(broker, "read-on")
    with (
        Command(broker.server, "consume", topic) as reading,
        Command(broker.server, "consume", topic, "-q") as quiet,
        Command(broker.server, "consume", topic, "-G", "readers", "-X", "heartbeat.interval.ms=200") as member,
        Command(broker.server, "produce", topic, "--json") as writing,
    ):
        writing.write("before")
        for each in (reading, quiet, member):
            each.has(each.out, "before")
        broker.end()
        reading.has(reading.err, "; waiting for it.")
        member.has(member.err, "; waiting for it.")
        broker.start()
        reading.has(reading.err, BACK)
        member.has(member.err, BACK)
        writing.write("behind")
        for each in (reading, quiet, member):
            each.has(each.out, "behind")
        assert writing.end() == 0
        for each in (reading, quiet, member):
            assert each.end(signal.SIGINT) == 130
            assert each.out == ["before", "behind"]
        assert len(away(reading.err)) == 1
        assert len(reading.err) == 2
        assert quiet.err == []


def test_lines_that_are_typed_while_the_broker_is_away_are_delivered_when_it_is_back(broker: KillableBroker) -> None:
    topic = create(broker, "kept")
    with Command(broker.server, "produce", topic, "--json") as writing:
        writing.write("1")
        writing.has(writing.out, '"offset": 0')
        broker.end()
        writing.has(writing.err, "records wait for it, each up to 2 min (delivery.timeout.ms).")  # nothing was typed
        for number in "234":
            writing.write(number)
        broker.start()
        writing.has(writing.err, BACK)
        writing.has(writing.out, '"offset": 3')
        writing.write("5")
        writing.has(writing.out, '"offset": 4')
        assert writing.end() == 0
        assert len(writing.err) == 2, writing.err
        assert [json.loads(line)["offset"] for line in writing.out] == [0, 1, 2, 3, 4]
    assert read(broker, topic) == list("12345")


def test_a_record_that_is_too_late_is_named_at_once_and_the_next_one_is_delivered(broker: KillableBroker) -> None:
    topic = create(broker, "too-late")
    words = ("produce", topic, "--json", "-X", "delivery.timeout.ms=300")
    with Command(broker.server, *words) as writing:
        # The first lines connect, and may be late themselves on a machine with much to do.
        writing.write("first")
        writing.has([*writing.out, *writing.err] if writing.out else writing.out, '"offset": 0')
        broker.end()
        writing.has(writing.err, "each up to 300 ms")
        writing.write("too late")
        writing.has(writing.err, "Error: line 2 ('too late'): not delivered within 300 ms (delivery.timeout.ms)")
        broker.start()
        writing.has(writing.err, BACK)
        assert writing.end() == 3
    assert "1 record to" not in "".join(writing.out)
    assert read(broker, topic) == ["first"]


def test_ctrl_c_while_lines_wait_says_which_are_lost(broker: KillableBroker) -> None:
    topic = create(broker, "given-up")
    with Command(broker.server, "produce", topic, "--json", "-X", "retry.backoff.ms=20") as writing:
        writing.write("there")
        writing.has(writing.out, '"offset": 0')
        broker.end()
        writing.has(writing.err, "records wait for it")
        writing.write("a=")
        writing.write("b=")
        writing.process.send_signal(signal.SIGSTOP)  # what is in the pipe now is read before the signal that ends it
        writing.process.send_signal(signal.SIGCONT)
        time.sleep(1)
        assert writing.end(signal.SIGINT) == 130
        assert "Error: 2 records were not delivered: lines 2-3" in writing.err
        broker.start()
    assert read(broker, topic) == ["there"]


def test_a_reader_to_the_end_does_not_wait_for_ever(broker: KillableBroker) -> None:
    topic = create(broker, "to-the-end")
    with Command(broker.server, "consume", topic, "--timeout-ms", "1") as reading:
        assert reading.end() == 0, reading.err
    with Command(broker.server, "consume", topic, "-X", "default.api.timeout.ms=200", "-e") as reading:
        assert reading.end() == 0, reading.err


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """A peer that takes everything and answers nothing, until the test is over."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                over.wait(60)

        thread = threading.Thread(target=serve)
        thread.start()
        yield "127.0.0.1", listener.getsockname()[1]
        over.set()
        thread.join()


def test_an_overdue_answer_is_reported_once_while_waiting(
    silent: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENT_S", 0.05)
    reported: list[str] = []
    with pytest.raises(Unreachable, match="no answer in time"):
        BrokerConnection(*silent, 0.3, on_silence=reported.append)
    assert reported == [f"127.0.0.1:{silent[1]} does not answer"]


def test_waiting_ends_at_the_deadline(silent: tuple[str, int]) -> None:
    client = Client(f"127.0.0.1:{silent[1]}", timeout_s=3600)
    with client.until(0.0), pytest.raises(Unreachable):
        client.nodes()


def test_an_outage_is_reported_once_and_a_short_one_not_at_all() -> None:
    reported: list[str] = []
    contact = Contact("waiting for it.", reported.append)
    contact.lost(KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER, "partition t-0: moves"))
    contact.back()
    assert reported == []
    contact.lost(Unreachable("no broker answers at x:1: Connection refused"))
    contact.lost(Unreachable("no broker answers at x:1: something else"))
    assert contact.is_lost
    contact.back()
    contact.back()
    assert len(reported) == 2
    assert reported[0] == "No broker answers at x:1: Connection refused; waiting for it."
    assert reported[1].startswith(BACK)


def test_a_group_that_takes_its_time_says_what_is_waited_for(broker: KillableBroker) -> None:
    """Its first rebalance takes group.initial.rebalance.delay.ms, three seconds by default."""
    topic = create(broker, "joined")
    with Command(broker.server, "consume", topic, "-G", "slow") as member:
        member.has(member.err, "Waiting for group slow: its rebalance ends when all members have joined or are out.")
        member.has(member.err, "Group slow, generation 1: reading joined-0")
        assert member.end(signal.SIGTERM) == 143
        assert member.out == []


def test_a_directory_is_named_where_a_batch_is_corrupt(tmp_path: Path) -> None:
    with KillableBroker(tmp_path) as broker:
        topic = create(broker, "damaged")
        with Command(broker.server, "produce", topic) as writing:
            writing.write("x" * 100)
            assert writing.end() == 0
        broker.end(signal.SIGTERM)
        log = tmp_path / "data" / "damaged-0" / "00000000000000000000.log"
        content = bytearray(log.read_bytes())
        content[100] ^= 1
        log.write_bytes(content)
        broker.start()
        with Command(broker.server, "consume", topic, "-e") as reading:
            assert reading.end() == 1
        assert len(reading.err) == 1
        assert "CORRUPT_MESSAGE" in reading.err[0]
        assert f"on the machine of broker 1, kpybroker check {log.parent} says what is damaged" in reading.err[0]
        with Command(broker.server, "consume", topic, "-e", "-X", "check.crcs=false") as reading:
            assert reading.end() == 0
            assert len(reading.out) == 1
