"""The properties of ``-X``: one table says what there is, what a value may be, and which hint a slip gets."""

import inspect
import socket
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import client_settings, consume, main, produce
from kpybroker.cli import delivering as delivering_module
from kpybroker.cli.contact import Contact, mute
from kpybroker.cli.delivering import LOOK_S, Delivering
from kpybroker.cli.intake import Intake, Lines
from kpybroker.client import client_configs, properties
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.client import Client
from kpybroker.client.client_configs import (
    ADMIN,
    CONSUME,
    ELSEWHERE,
    EVERY,
    PRODUCE,
    PROPERTIES,
    SECURITY_PREFIXES,
    parse,
    with_defaults,
)
from kpybroker.client.security import security_of
from kpybroker.client.sender import Sender
from kpybroker.testing import Broker
from kpywire.record import Record


@pytest.mark.parametrize(
    ("command", "pair", "printed"),
    [
        (PRODUCE, "acsk=1", "there is no property acsk here; did you mean acks?"),
        (PRODUCE, "linger_ms=1", "did you mean linger.ms?"),
        (PRODUCE, "zzz=1", "there is no property zzz here; -X list shows what there is"),
        (PRODUCE, "acks=2", "acks is all, -1, 0 or 1, not '2'"),
        (PRODUCE, "delivery.timeout.ms=soon", "delivery.timeout.ms is a whole number from 1 on, not 'soon'"),
        (PRODUCE, "linger.ms=-1", "linger.ms is a whole number 0 or more, not '-1'"),
        (PRODUCE, "compression.type=brotli", "compression.type is none, gzip, snappy, lz4 or zstd, not 'brotli'"),
        (PRODUCE, "linger.ms", "'linger.ms' is not KEY=VALUE"),
        (PRODUCE, "=1", "'=1' is not KEY=VALUE"),
        (PRODUCE, "group.id=g", "group.id is a property of kpybroker consume, not of produce"),
        (PRODUCE, "sasl.kerberos.kinit.cmd=x", "has no effect here: the library of MIT Kerberos renews tickets itself"),
        (PRODUCE, "sasl.password=", "sasl.password is a text that is not empty, not what it is"),
        (PRODUCE, "transactional.id=t", "transactional.id has no effect here: this client writes no transactions"),
        (CONSUME, "bootstrap.servers=x", "bootstrap.servers has no effect here: use --bootstrap-server"),
        (CONSUME, "check.crcs=maybe", "check.crcs is true or false, not 'maybe'"),
        (CONSUME, "acks=1", "acks is a property of kpybroker produce, not of consume"),
    ],
)
def test_a_wrong_property_is_refused_in_one_line_with_the_remedy(command: str, pair: str, printed: str) -> None:
    with pytest.raises(BadProperty) as wrong:
        parse(command, [pair])
    assert printed in str(wrong.value)
    result = CliRunner().invoke(main, [command, "t", "-X", pair, "-b", "127.0.0.1:1"])
    assert result.exit_code == 2
    assert printed in result.output


@pytest.mark.parametrize(
    ("pairs", "printed"),
    [
        (["ssl.ca.location=x"], "ssl.ca.location has no effect without security.protocol: set security.protocol=SSL"),
        (["sasl.username=x"], "sasl.username has no effect without security.protocol: set security.protocol=SASL_"),
        (["security.protocol=SASL_SSL"], "needs a sasl.mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        (["security.protocol=sasl_ssl", "sasl.mechanism=NTLM"], "sasl.mechanism=NTLM: this client logs in by PLAIN"),
        (["security.protocol=sasl_ssl", "sasl.mechanism=GSSAPI"], "GSSAPI needs sasl.kerberos.service.name"),
        (["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN"], "needs a user: set sasl.jaas.config="),
        (["security.protocol=SSL", "ssl.ca.location=/none.pem"], "/none.pem"),
        (
            ["security.protocol=SSL", "ssl.key.location=k"],
            "ssl.certificate.location and ssl.key.location belong together",
        ),
        (["security.protocol=SSL", "ssl.ca.location=a", "ssl.truststore.location=b"], "are both set; give one of them"),
    ],
)
def test_wrong_security_is_a_usage_error_of_one_line(pairs: list[str], printed: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = [word for pair in pairs for word in ("-X", pair)]
        result = CliRunner().invoke(main, ["consume", "t", *words, "-b", f"127.0.0.1:{silent.getsockname()[1]}"])
    assert result.exit_code == 2
    assert printed in result.output
    assert "Traceback" not in result.output


def test_no_secret_is_in_the_repr_of_what_a_client_keeps() -> None:
    found = security_of(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "me",
            "sasl.password": "mystery",
            "ssl.truststore.location": "x",
            "ssl.truststore.password": "mystery",
        }
    )
    assert found.protocol == "SASL_SSL"
    assert found.login is not None
    assert found.login.password == "mystery"
    assert "mystery" not in repr(found)


def test_librdkafkas_names_are_those_of_kafka_and_the_last_one_counts() -> None:
    printed = parse(PRODUCE, ["message.timeout.ms=5", "queue.buffering.max.ms=7", "delivery.timeout.ms=6"])
    assert printed == {"delivery.timeout.ms": 6, "linger.ms": 7}


def test_idempotence_is_what_acks_allow() -> None:
    assert with_defaults(PRODUCE, parse(PRODUCE, []))["enable.idempotence"] is True
    assert with_defaults(PRODUCE, parse(PRODUCE, ["acks=1"]))["enable.idempotence"] is False
    with pytest.raises(BadProperty, match="needs acks=all"):
        parse(PRODUCE, ["acks=1", "enable.idempotence=true"])


def test_every_property_is_used_by_the_commands_that_take_it() -> None:
    shared = inspect.getsource(properties) + inspect.getsource(client_settings)
    sources = {PRODUCE: shared + inspect.getsource(produce), CONSUME: shared + inspect.getsource(consume)}
    sources[ADMIN] = shared
    for each in PROPERTIES:
        if each.name.startswith(SECURITY_PREFIXES):
            assert each.commands == EVERY
            continue
        for command in each.commands:
            if each.name != "enable.idempotence" or command == PRODUCE:
                assert f'"{each.name}"' in sources[command], (command, each.name)
        assert each.default is None or each.name == "acks" or each.type.read(client_configs.shown(each)) == each.default
    assert not {each.name for each in PROPERTIES} & set(ELSEWHERE)


def test_a_list_of_the_properties_needs_no_broker() -> None:
    result = CliRunner().invoke(main, ["consume", "t", "-X", "list", "-b", "127.0.0.1:1"])
    assert result.exit_code == 0
    assert "fetch.max.wait.ms" in result.output
    assert "delivery.timeout.ms" not in result.output


def test_an_option_and_a_property_may_not_contradict_each_other() -> None:
    for words in (
        ["produce", "t", "-z", "gzip", "-X", "compression.type=lz4"],
        ["consume", "t", "-G", "a", "-X", "group.id=b"],
    ):
        result = CliRunner().invoke(main, [*words, "-b", "127.0.0.1:1"])
        assert result.exit_code == 2
        assert "have different values" in result.output


def invoke(broker: Broker, *words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, [*words, "-b", broker.bootstrap_servers], input=stdin)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("t")
        yield running


def test_a_client_id_is_what_the_broker_sees(broker: Broker) -> None:
    broker.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", client_id="me")
    refused = invoke(broker, "produce", "t", "-X", "client.id=me", stdin="a\nb\n")
    assert refused.exit_code == 1
    assert "TOPIC_AUTHORIZATION_FAILED" in refused.stderr
    assert "Error: 2 records were not delivered: lines 1-2" in refused.stderr
    assert invoke(broker, "produce", "t", stdin="a\n").exit_code == 0


def test_retries_bound_the_attempts_for_a_batch(broker: Broker) -> None:
    broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
    failed = invoke(broker, "produce", "t", "-X", "retries=0", stdin="a\n")
    assert failed.exit_code == 1
    assert "Error: line 1 ('a'): partition t-0" in failed.stderr
    broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
    assert invoke(broker, "produce", "t", "-X", "retries=1", stdin="b\nc\n").exit_code == 0
    assert [each.value for each in broker.records("t")] == [b"b", b"c"]


def test_with_acks_0_the_offset_of_a_record_is_unknown(broker: Broker) -> None:
    assert '"offset": -1' in invoke(broker, "produce", "t", "-X", "acks=0", "--json", stdin="a\n").stdout
    broker.wait_for_records("t", 1)
    assert '"offset": 1' in invoke(broker, "produce", "t", "-X", "acks=1", "--json", stdin="b\n").stdout


def test_a_lost_answer_writes_nothing_twice_unless_idempotence_is_off(broker: Broker) -> None:
    for word, count in (("true", 1), ("false", 3)):
        broker.faults.disconnect("Produce", times=1, served=True)
        assert invoke(broker, "produce", "t", "-X", f"enable.idempotence={word}", stdin="a\n").exit_code == 0
        assert len(broker.records("t")) == count


def test_a_bad_record_is_named_and_all_others_are_delivered(broker: Broker) -> None:
    broker.create_topic("compacted", config={"cleanup.policy": "compact"})
    result = invoke(broker, "produce", "compacted", "-K:", stdin="k:1\nnokey\nk:2\nk:3\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: line 2 ('nokey'): partition compacted-0")
    assert "3 records to compacted, 1 not delivered" in result.stderr
    assert [each.value for each in broker.records("compacted")] == [b"1", b"2", b"3"]


def test_an_offset_that_is_gone_is_an_error_or_what_auto_offset_reset_says(broker: Broker) -> None:
    broker.produce("t", "first")
    words = ("consume", "t", "-o", "77", "--timeout-ms", "300")
    assert invoke(broker, *words).exit_code == 1
    reset = invoke(broker, *words, "-X", "auto.offset.reset=earliest")
    assert (reset.exit_code, reset.stdout) == (0, "first\n")
    assert "Partition t-0 has no offset 77; reading on at 0." in reset.stderr
    assert invoke(broker, *words, "-X", "auto.offset.reset=latest").stdout == ""
    nowhere = invoke(broker, "consume", "t", "-X", "auto.offset.reset=none")
    assert nowhere.exit_code == 1
    assert "auto.offset.reset is none; use --offset" in nowhere.stderr


def test_group_and_commit_settings_can_be_given_as_properties(broker: Broker) -> None:
    broker.produce("t", "first")
    group = ("consume", "t", "-e", "-q", "-X", "group.id=g", "-X", "session.timeout.ms=6000")
    assert invoke(broker, *group, "-X", "enable.auto.commit=false").stdout == "first\n"
    assert invoke(broker, *group).stdout == "first\n"
    assert invoke(broker, *group).stdout == ""


@pytest.mark.parametrize(("batch_size", "batches"), [(1, 6), (1_000, 1)])
def test_a_batch_is_no_larger_than_batch_size(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, batch_size: int, batches: int
) -> None:
    sent = count_batches(monkeypatch)
    lines = "".join(f"{number}\n" for number in range(6))
    assert invoke(broker, "produce", "t", "-X", f"batch.size={batch_size}", stdin=lines).exit_code == 0
    assert [each.value for each in broker.records("t")] == [b"%d" % number for number in range(6)]
    assert len(sent) == batches


def count_batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each batch has that is sent from now on."""
    sent: list[int] = []
    append = Sender._append

    def counting(self: Sender, spot: Any, batch: Any, leader: int) -> Any:
        sent.append(len(batch.waiting))
        return append(self, spot, batch, leader)

    monkeypatch.setattr(Sender, "_append", counting)
    return sent


class Typing:
    """An input whose lines come one at a time."""

    def __init__(self, count: int) -> None:
        self.left = count

    @property
    def is_over(self) -> bool:
        return self.left == 0

    def take(self, _wait_s: float) -> Lines | None:
        self.left -= 1
        return Lines(1, time.monotonic(), 0, [b"x"])


@pytest.mark.parametrize(("linger_s", "batches"), [(3600, [3]), (0, [1, 1, 1])])
def test_a_batch_waits_for_more_lines_as_long_as_linger_ms_says(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, linger_s: float, batches: list[int]
) -> None:
    sent = count_batches(monkeypatch)
    with Client(broker.bootstrap_servers) as client:
        delivering = Delivering(
            Sender(client, "t"),
            cast(Intake, Typing(3)),
            lambda line, _number, _time_ms: Record(value=line),
            Contact("", mute),
            linger_s=linger_s,
            buffer_bytes=1 << 20,
        )
        assert sum(map(len, delivering.run())) == 3
    assert sent == batches


class Ending:
    """An input whose end is seen only after its line was delivered."""

    is_over = False

    def __init__(self) -> None:
        self._lines = [Lines(1, time.monotonic(), 0, [b"x"])]

    def take(self, wait_s: float) -> Lines | None:
        if self._lines:
            return self._lines.pop()
        if wait_s >= LOOK_S:  # the line was delivered, and there is nothing else to wait for
            self.is_over = True
        return None


def test_delivering_ends_without_a_pause_when_the_input_ends_after_the_last_acknowledgement(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(delivering_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pauses.append))
    with Client(broker.bootstrap_servers) as client:
        delivering = Delivering(
            Sender(client, "t"),
            cast(Intake, Ending()),
            lambda line, _number, _time_ms: Record(value=line),
            Contact("", mute),
            linger_s=0,
            buffer_bytes=1 << 20,
        )
        assert sum(map(len, delivering.run())) == 1
    assert not pauses


@pytest.mark.parametrize(
    "pair",
    ["fetch.min.bytes=1", "fetch.max.bytes=1", "max.partition.fetch.bytes=1", "fetch.max.wait.ms=1", "client.rack=a"],
)
def test_small_fetches_read_everything_all_the_same(broker: Broker, pair: str) -> None:
    for number in range(3):
        broker.produce("t", str(number))
    assert invoke(broker, "consume", "t", "-e", "-X", pair).stdout == "0\n1\n2\n"
