"""``kpybroker topics``, ``produce`` and ``consume`` with any broker: what a person does on the first day."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import NewTopic, StartBroker
from support.clients import CLIENTS, KafkaPython, Record

PROGRAM = str(Path(sys.executable).with_name("kpybroker"))

Run = Callable[..., str]


class Failed(AssertionError):
    """A command ended with a code above 0; ``printed`` is its stderr."""

    def __init__(self, code: int, printed: str) -> None:
        super().__init__(f"exit code {code}: {printed}")
        self.code, self.printed = code, printed


@pytest.fixture
def run(bootstrap_servers: str) -> Run:
    """Runs a command to its end; its stdout."""

    def run_command(*words: str, stdin: str = "", server: str = bootstrap_servers) -> str:
        command = [PROGRAM, *words, "--bootstrap-server", server]
        finished = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        if finished.returncode:
            raise Failed(finished.returncode, finished.stderr)
        return finished.stdout

    return run_command


@contextmanager
def ending(*processes: "subprocess.Popen[str]") -> Iterator[None]:
    """Processes that are killed at the end if they still run: a reader waits for its broker for ever."""
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()


def fields(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_a_topic_is_created_listed_described_altered_and_deleted(run: Run, unused_topic: Callable[[], str]) -> None:
    name = unused_topic()
    run("topics", "create", name, "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=1000000")
    assert [name, "3", "1"] in fields(run("topics", "list"))
    assert {"name": name, "partitions": 3, "replicas": 1} in json.loads(run("topics", "list", "--json"))

    run("topics", "alter", name, "-p", "4", "-c", "max.message.bytes=2000", "--delete-config", "retention.ms")
    (described,) = json.loads(run("topics", "describe", name, "--json"))
    assert described["configs"] == {"max.message.bytes": "2000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2, 3]
    assert all(each["start_offset"] == each["end_offset"] == 0 for each in described["partitions"])
    assert "max.message.bytes=2000" in run("topics", "describe", name)

    run("topics", "delete", name)
    assert name not in {row[0] for row in fields(run("topics", "list"))}


def test_topics_that_are_there_or_not_can_be_all_right(run: Run, topic: str, unused_topic: Callable[[], str]) -> None:
    assert "exists already" in run("topics", "create", topic, "--if-not-exists")
    assert "does not exist" in run("topics", "delete", unused_topic(), "--if-exists")


def test_lines_come_back_as_records_in_order(run: Run, topic: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(5000))
    run("produce", topic, stdin=lines)
    assert run("consume", topic, "--exit") == lines
    assert run("consume", topic, "--count", "3") == "line 0\nline 1\nline 2\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_codecs_are_those_that_other_clients_see(
    run: Run, topic: str, bootstrap_servers: str, codec: str
) -> None:
    run("produce", topic, "-K:", "-H", "source=test", "-H", "empty", "-z", codec, stdin="a:1\nb:x:y\nno key\n")
    expected = [(b"a", b"1"), (b"b", b"x:y"), (None, b"no key")]
    for client in CLIENTS.values():
        stored = client(bootstrap_servers).read(topic)
        assert [(each.key, each.value) for each in stored] == expected
        assert {each.headers for each in stored} == {(("source", b"test"), ("empty", None))}


def test_empty_keys_and_values_can_be_null(run: Run, topic: str) -> None:
    run("produce", topic, "-K:", "-Z", stdin="a:\n:1\n")
    records = [json.loads(line) for line in run("consume", topic, "-e", "--json").splitlines()]
    assert [(each["key"], each["value"]) for each in records] == [("a", None), (None, "1")]


def test_a_key_goes_where_other_clients_put_it(run: Run, new_topic: NewTopic, bootstrap_servers: str) -> None:
    """kafka-python partitions as Kafka's Java client does."""
    name = new_topic(7)
    keys = [f"key-{number}" for number in range(50)] + ["é", "a" * 99]
    theirs = KafkaPython(bootstrap_servers).produce(name, [Record(b"", key.encode(), partition=None) for key in keys])
    run("produce", name, "-K|", stdin="".join(f"{key}|\n" for key in keys))
    partitions: dict[str, list[int]] = {key: [] for key in keys}
    for line in run("consume", name, "-e", "-f", r"%k %p\n").splitlines():
        key, _, partition = line.rpartition(" ")
        partitions[key].append(int(partition))
    assert partitions == {key: [placed.partition] * 2 for key, placed in zip(keys, theirs, strict=True)}


def test_a_format_shows_what_kcat_and_rpk_show(run: Run, new_topic: NewTopic) -> None:
    name = new_topic(2)
    run("produce", name, "-p", "1", "-k", "key", "-H", "h=1", stdin="value\n")
    assert (
        run("consume", name, "-e", "-f", r"%t %p %o %k=%v %K %S %h 100%%\t|\n")
        == f"{name} 1 0 key=value 3 5 h=1 100%\t|\n"
    )


def test_reading_starts_at_the_position_of_the_options(run: Run, topic: str, bootstrap_servers: str) -> None:
    old = [Record(f"{number}".encode(), timestamp_ms=1_700_000_000_000 + number * 1000) for number in range(10)]
    KafkaPython(bootstrap_servers).produce(topic, old)

    def first_from(start: str) -> str:
        return run("consume", topic, "-e", "-o", start).partition("\n")[0]

    assert first_from("start") == "0"
    assert first_from("4") == "4"
    assert first_from("-3") == "7"
    assert first_from("@1700000005500") == "6"
    assert first_from("@2023-11-14T22:13:22+00:00") == "2"
    assert first_from("@2100-01-01") == ""
    assert first_from("end") == ""


def test_a_reader_at_the_end_sees_what_comes_later(run: Run, topic: str, bootstrap_servers: str) -> None:
    run("produce", topic, stdin="before\n")
    command = [PROGRAM, "consume", topic, "-o", "-1", "-c", "2", "-b", bootstrap_servers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "before\n"
        run("produce", topic, stdin="after\n")
        assert reader.stdout.read() == "after\n"
        assert reader.wait(30) == 0


def test_a_reader_that_nothing_comes_for_ends_alone_and_in_a_group(run: Run, topic: str) -> None:
    run("produce", topic, stdin="once\n")
    assert run("consume", topic, "--timeout-ms", "100") == "once\n"
    assert run("consume", topic, "--timeout-ms", "8000", "-G", f"{topic}-readers") == "once\n"
    assert run("consume", topic, "--timeout-ms", "100", "-o", "end") == ""


def test_a_batch_above_the_topics_limit_is_sent_in_parts(run: Run, new_topic: NewTopic) -> None:
    name = new_topic(1, max_message_bytes="500")
    lines = "".join(f"{'x' * 50}{number}\n" for number in range(100))
    run("produce", name, stdin=lines)
    assert run("consume", name, "-e") == lines


def test_a_record_above_the_topics_limit_is_one_clear_line(run: Run, new_topic: NewTopic) -> None:
    name = new_topic(1, max_message_bytes="500")
    with pytest.raises(Failed, match="MESSAGE_TOO_LARGE") as failed:
        run("produce", name, stdin="x" * 1000)
    assert failed.value.code == 1
    assert len(failed.value.printed.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("topics", "describe", "no-such-topic"), "topic no-such-topic does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("topics", "delete", "no-such-topic"), "topic no-such-topic does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("consume", "no-such-topic"), "topic no-such-topic does not exist (UNKNOWN_TOPIC_OR_PARTITION)"),
        (("configs", "describe", "-t", "no-such-topic"), "topic no-such-topic does not exist"),
        (("configs", "alter", "-t", "no-such-topic", "-c", "retention.ms=1"), "topic no-such-topic does not exist"),
        (("topics", "create", "not a name"), "(INVALID_TOPIC_EXCEPTION)"),
        (("topics", "create", "good", "-c", "no.such.config=1"), "(INVALID_CONFIG)"),
    ],
    ids=["describe", "delete", "consume", "configs", "alter", "bad-name", "bad-config"],
)
def test_a_refusal_is_one_line_with_kafkas_name_of_the_error(run: Run, words: tuple[str, ...], text: str) -> None:
    with pytest.raises(Failed) as failed:
        run(*words)
    assert text in failed.value.printed
    assert failed.value.code == 1
    assert len(failed.value.printed.splitlines()) == 1


def test_a_missing_partition_and_a_missing_offset_say_what_is_there(run: Run, topic: str) -> None:
    with pytest.raises(Failed, match="has no partition 9, only 0 to 0"):
        run("consume", topic, "-p", "9")
    with pytest.raises(Failed, match="has no offset 100, its first is 0"):
        run("consume", topic, "-o", "100")


def test_a_restart_of_the_broker_loses_and_repeats_nothing(run: Run, start_broker: StartBroker) -> None:
    broker = start_broker()
    run("topics", "create", "hello", server=broker.bootstrap_servers)
    command = [PROGRAM, "produce", "hello", "--json", "-b", broker.bootstrap_servers]
    reading = [PROGRAM, "consume", "hello", "-c", "20", "-b", broker.bootstrap_servers]
    with (
        subprocess.Popen(reading, stdout=subprocess.PIPE, text=True) as reader,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as writer,
        ending(reader, writer),
    ):
        assert writer.stdin is not None
        assert writer.stdout is not None
        assert reader.stdout is not None
        for number in range(20):
            writer.stdin.write(f"{number}\n")
            if number == 10:
                seen = reader.stdout.readline()
                broker.restart(kill=True)
            assert json.loads(writer.stdout.readline())["offset"] == number
        writer.stdin.close()
        assert writer.wait(30) == 0
        assert seen + reader.stdout.read() == "".join(f"{number}\n" for number in range(20))
        assert reader.wait(30) == 0
