"""``kpybroker lake`` with a real broker: its lines, its exit codes, and its end by SIGTERM."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from kpybroker.cli import main
from kpybroker.testing import Broker

TIMEOUT_S = 120


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kpybroker", "lake", *words]


def lake(broker: Broker | None, *words: str, code: int = 0) -> str:
    """Run a command in this process; return stdout, or stderr if it is to fail."""
    server = [] if broker is None else ["-b", broker.bootstrap_servers]
    done = CliRunner().invoke(main, ["lake", *words, *server])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code == code, done.output
    return done.stdout if code in (0, 4) else done.stderr


def filled(broker: Broker, topic: str, partitions: int = 2) -> None:
    broker.create_topic(topic, partitions)
    for number in range(20):
        value = json.dumps({"n": number, "half": number / 2}).encode()
        broker.produce(topic, (b"k%d" % (number % 3), value), partition=number % partitions)
    broker.produce(topic, (b"bad", b"\xff\x00"), partition=0)


def test_a_table_is_written_shown_checked_replayed_and_maintained(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "flights")
    table = f"delta:{tmp_path}/flights"
    assert (
        lake(broker, "run", "flights", table, "--once", "--values", "json") == "20 rows and 1 dead letter in 1 commit\n"
    )
    assert lake(broker, "check", "flights", table).splitlines()[-1] == "table = topic: 20 rows and 1 dead letter"
    assert "not UTF-8 at byte 0" in lake(None, "show", table)
    assert lake(broker, "replay", "flights", table) == "0 dead letters became rows; 1 still do not fit\n"
    assert "files" in lake(None, "maintain", table)
    assert lake(broker, "run", "flights", table, "--once") == "0 rows and 0 dead letters in 0 commits\n"
    found = json.loads(lake(broker, "check", "flights", table, "--json"))
    assert found["holds"]
    assert [partition["rows"] for partition in found["partitions"]] == [10, 10]
    assert json.loads(lake(None, "show", table, "--json"))["values"] == "json"
    from deltalake import DeltaTable

    flights = DeltaTable(f"{tmp_path}/flights").to_pyarrow_dataset()
    assert duckdb.sql("select sum(n), sum(half) from flights").fetchall() == [(190, 95.0)]
    assert flights.count_rows() == 20


def test_documents_of_a_schema_in_a_file_with_headers_and_epochs(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "valid", 1)
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps({"properties": {"n": {"type": "integer", "maximum": 17}}}))
    table = f"delta:{tmp_path}/valid"
    words = ["run", "valid", table, "--once", "-q", "--values", "json-schema", "--schema", str(schema)]
    assert lake(broker, *words, "--with-headers", "--with-epoch").startswith("18 rows and 3 dead letters")
    assert "n: 18 is greater than the maximum of 17" in lake(None, "show", table)
    assert "needs --schema-registry or --schema" in lake(broker, "replay", "valid", table, code=1)
    schema.write_text("{}")
    done = lake(broker, "replay", "valid", table, "--schema", str(schema))
    assert done == "2 dead letters became rows; 1 still do not fit\n"
    assert lake(broker, "check", "valid", table).endswith("table = topic: 20 rows and 1 dead letter\n")
    from deltalake import DeltaTable

    valid = DeltaTable(f"{tmp_path}/valid").to_pyarrow_dataset()
    assert valid.to_table()["_headers"].null_count == valid.count_rows() == 20
    assert set(valid.to_table()["_epoch"].to_pylist()) == {0}
    assert "--message needs --schema" in lake(broker, *words[:-2], "--message", "a.B", code=2)
    assert "--message is for --values protobuf" in lake(broker, *words, "--message", "a.B", code=1)
    assert "write KEY=VALUE" in lake(broker, *words, "--option", "a=1", "--option", "x", code=2)


def test_a_run_of_dead_letters_alone_gives_a_reason_and_how_to_count_them(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("junk", 1)
    broker.produce("junk", (None, b"\xff"), (None, b"[]"))
    table = f"delta:{tmp_path}/junk"
    done = CliRunner().invoke(
        main, ["lake", "run", "junk", table, "--once", "-q", "--values", "json", "-b", broker.bootstrap_servers]
    )
    assert (done.exit_code, done.stdout) == (0, "0 rows and 2 dead letters in 1 commit\n")
    assert "All records of the first commit are dead letters, one of them since: not UTF-8 at byte 0." in done.stderr
    assert f"kpybroker lake show {table} counts the reasons" in done.stderr
    broker.produce("junk", (None, b'{"n": 1}'))
    assert "dead letters, one" not in lake(broker, "run", "junk", table, "--once")


def test_the_check_reads_values_with_their_schema_or_says_that_it_does_not(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("plain", 1)
    broker.produce("plain", (b"k", b"\x02"), (b"k", b"\x04"))
    schema = tmp_path / "schema.avsc"
    schema.write_text('{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}')
    table = f"delta:{tmp_path}/plain"
    lake(broker, "run", "plain", table, "--once", "-q", "--values", "avro", "--schema", str(schema))
    from deltalake import DeltaTable

    DeltaTable(f"{tmp_path}/plain").update({"n": "9"}, predicate="_offset = 1")
    without = lake(broker, "check", "plain", table).splitlines()
    assert without[-2].startswith("Keys and timestamps were compared, but no values: --schema-registry or --schema")
    assert without[-1].startswith("table = topic: 2 rows")
    found = lake(broker, "check", "plain", table, "--schema", str(schema), code=4)
    assert "plain-0, offset 1 has another n in the topic" in found
    assert json.loads(lake(broker, "check", "plain", table, "--json"))["compared"] == {"values": False}


def test_rows_behind_the_end_of_a_log_are_named_by_a_run(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(broker, "behind", 1)
    table = f"delta:{tmp_path}/behind"
    lake(broker, "run", "behind", table, "--once", "-q")
    from kpybroker.pipeline.lake.topic import LakeTopic

    monkeypatch.setattr(LakeTopic, "ends", lambda _: {0: 20})
    monkeypatch.setattr(LakeTopic, "log_ends", lambda _: {0: 20})
    found = lake(broker, "run", "behind", table, "--once", code=1)
    assert "behind-0: the table has offsets up to 21, and the log ends at 20" in found
    assert lake(broker, "run", "behind", table, "--once", "--skip-lost").startswith("0 rows")
    assert "[0, 20)" in lake(None, "show", table)


def test_a_wrong_table_has_exit_code_4(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "wrong", 1)
    table = f"delta:{tmp_path}/wrong"
    lake(broker, "run", "wrong", table, "--once", "-q")
    from deltalake import DeltaTable

    DeltaTable(f"{tmp_path}/wrong").delete("_offset = 5")
    out = lake(broker, "check", "wrong", table, code=4)
    assert "wrong-0, offset 5 is in the topic, and neither a row nor a dead letter" in out
    assert out.endswith("table != topic: 20 rows and 0 dead letters\n")


def test_sigterm_ends_a_running_writer_after_a_commit(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "tail")
    table = f"delta:{tmp_path}/tail"
    words = command("run", "tail", table, "--values", "json", "--commit-ms", "0", "-b", broker.bootstrap_servers)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("Commit 1: ")
        broker.produce("tail", (b"late", b'{"n": 99}'), partition=1)
        assert running.stderr.readline() == "Commit 2: 1 row, 0 dead letters.\n"
        running.send_signal(signal.SIGTERM)
        out, _ = running.communicate(timeout=TIMEOUT_S)
        assert running.returncode == 0
        assert out == "21 rows and 1 dead letter in 2 commits\n"
    lake(broker, "check", "tail", table)


def test_a_topic_that_was_created_again_stops_or_is_a_new_generation(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "again", 1)
    table = f"delta:{tmp_path}/again"
    lake(broker, "run", "again", table, "--once", "-q")
    broker.delete_topic("again")
    filled(broker, "again", 1)
    text = lake(broker, "run", "again", table, "--once", code=1)
    assert "deleted and created again" in text
    assert "--new-generation" in text
    lake(broker, "run", "again", table, "--once", "--new-generation", "-q")
    assert lake(broker, "check", "again", table).endswith("table = topic: 21 rows and 0 dead letters\n")
    assert "42 rows" in lake(None, "show", table)


def test_aborted_records_are_gaps(broker: Broker, tmp_path: Path) -> None:
    from kafka import KafkaProducer

    broker.create_topic("paid", 1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payer")
    producer.init_transactions()
    for ending in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for number in range(3):
            producer.send("paid", b"%d" % number)
        producer.flush()
        ending()
    producer.close()
    table = f"delta:{tmp_path}/paid"
    assert lake(broker, "run", "paid", table, "--once").startswith("6 rows")
    assert "12 offsets - 6 gaps = 6 rows + 0 dead letters" in lake(broker, "check", "paid", table)


def test_mistakes_are_one_line(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "mistakes", 1)
    table = f"delta:{tmp_path}/mistakes"
    assert "topic nowhere does not exist" in lake(broker, "run", "nowhere", table, "--once", code=1)
    assert "write delta:PATH" in lake(broker, "run", "mistakes", "mistakes", "--once", code=2)
    assert "there is no table" in lake(None, "show", table, code=1)
    assert "needs --schema-registry" in lake(broker, "run", "mistakes", table, "--once", "--values", "avro", code=1)
    away = ("--values", "avro", "--schema-registry", "http://127.0.0.1:9")
    broker.produce("mistakes", (None, b"\0\0\0\0\1x"))
    assert "127.0.0.1:9 cannot be reached" in lake(broker, "run", "mistakes", table, "--once", *away, code=1)
    assert "no such column" in lake(broker, "run", "mistakes", table, "--once", "--partition-by", "x", code=1)
    lake(broker, "run", "mistakes", table, "--once", "-q")
    assert "--mode append, and stays so" in lake(broker, "run", "mistakes", table, "--mode", "upsert", code=1)


def test_a_place_where_nothing_can_be_written_is_one_line(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "closed", 1)
    (tmp_path / "file").write_bytes(b"")
    text = lake(broker, "run", "closed", f"delta:{tmp_path}/file/table", "--once", code=1)
    assert text.startswith("Error: table ")
    assert len(text.splitlines()) == 1


def test_without_the_extra_a_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.delitem(sys.modules, "kpybroker.pipeline.lake.delta", raising=False)
    text = lake(None, "show", f"delta:{tmp_path}/table", code=1)
    assert text == "Error: deltalake is not installed: pip install 'kpybroker[lake]'\n"


def test_offsets_that_are_gone_stop_a_writer_or_are_skipped(broker: Broker, tmp_path: Path) -> None:
    filled(broker, "short", 1)
    table = f"delta:{tmp_path}/short"
    lake(broker, "run", "short", table, "--once", "-q")
    for number in range(10):
        broker.produce("short", (b"k", b"%d" % number))
    server = ["-b", broker.bootstrap_servers]
    assert (
        CliRunner().invoke(main, ["offsets", "delete-records", "short", "--before-offset", "25", *server]).exit_code
        == 0
    )
    assert "offset 21 is gone" in lake(broker, "run", "short", table, "--once", code=1)
    assert lake(broker, "run", "short", table, "--once", "--skip-lost", "-q").startswith("6 rows")
    assert "table = topic: 6 rows" in lake(broker, "check", "short", table)
