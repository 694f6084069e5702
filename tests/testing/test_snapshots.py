"""A broker's whole state, kept and restored: in memory, on disk, from one to the other."""

import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaProducer

from kpybroker.testing import Broker, Snapshot
from kpywire import error_codes


def fill(broker: Broker) -> None:
    broker.create_topic("kept", partitions=2, config={"retention.ms": -1})
    broker.produce("kept", "a", "b")
    broker.produce("kept", "c", partition=1)


def spoil(broker: Broker) -> None:
    broker.produce("kept", "too much")
    broker.create_topic("unwanted")
    broker.delete_topic("kept")


def check(broker: Broker) -> None:
    assert broker.topics() == ["kept"]
    assert [record.text for record in broker.records("kept")] == ["a", "b", "c"]
    broker.produce("kept", "d")
    assert [record.offset for record in broker.records("kept", partition=0)] == [0, 1, 2]


@pytest.mark.parametrize("process", [False, True], ids=["thread", "child process"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_a_broker_becomes_again_what_it_was_on_the_same_port(process: bool, on_disk: bool, tmp_path: Path) -> None:
    with Broker(process=process, directory=tmp_path / "data" if on_disk else None) as broker:
        port = broker.port
        fill(broker)
        snapshot = broker.snapshot()
        for _ in range(2):
            spoil(broker)
            broker.restore(snapshot)
            check(broker)
        assert broker.port == port


def test_many_brokers_begin_from_one_snapshot_wherever_their_data_is(tmp_path: Path) -> None:
    with Broker() as broker:
        fill(broker)
        snapshot = broker.snapshot()
    snapshot.save(tmp_path / "saved")
    assert Snapshot.load(tmp_path / "saved") == snapshot
    assert "files" in repr(snapshot)
    brokers = [
        Broker(snapshot=snapshot),
        Broker(snapshot=Snapshot.load(tmp_path / "saved"), directory=tmp_path / "on disk"),
        Broker(snapshot=snapshot, process=True),
    ]
    for broker in brokers:
        with broker:
            check(broker)


def test_a_snapshot_is_not_written_over_something(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        Snapshot({}).save(tmp_path / "there")


def test_a_saved_snapshot_is_a_log_directory_that_kpybroker_starts_on(tmp_path: Path) -> None:
    with Broker() as broker:
        fill(broker)
        broker.snapshot().save(tmp_path / "saved")
    with Broker(directory=tmp_path / "saved") as broker:
        check(broker)


def test_a_snapshot_under_load_holds_what_was_acknowledged() -> None:
    with Broker() as broker:
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        acknowledged = [producer.send("busy", b"%d" % number).get(30).offset for number in range(50)]
        later = [producer.send("busy", b"later") for _ in range(200)]
        snapshot = broker.snapshot()
        assert all(future.get(30) for future in later)
        producer.close()
        broker.restore(snapshot)
        kept = [record.value for record in broker.records("busy")]
        assert kept[:50] == [b"%d" % number for number in range(50)]
        assert len(acknowledged) == 50


def test_faults_outlive_a_restore_and_clients_find_the_broker_again() -> None:
    with Broker() as broker:
        broker.create_topic("t")
        snapshot = broker.snapshot()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        producer.send("t", b"forgotten").get(30)
        fault = broker.faults.fail("Produce", error_codes.NOT_LEADER_OR_FOLLOWER, times=1)
        broker.restore(snapshot)
        producer.send("t", b"remembered").get(20)
        producer.close()
        assert fault.hits == 1
        broker.assert_records("t", ["remembered"])


def test_the_command_line_runs_a_saved_snapshot(tmp_path: Path) -> None:
    with Broker() as broker:
        fill(broker)
        broker.snapshot().save(tmp_path / "saved")
    program = Path(sys.executable).with_name("kpybroker")
    command = [str(program), "start", "--data", str(tmp_path / "saved"), "--listen", "127.0.0.1:0", "--http", "off"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any("Kafka Server started" in line for line in iter(process.stdout.readline, ""))
        finally:
            process.terminate()
