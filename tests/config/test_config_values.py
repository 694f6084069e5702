"""Texts become values, and are refused, as by Apache Kafka."""

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.topic_configs import TOPIC_CONFIGS
from kpybroker.machines.config_def import (
    ConfigError,
    Password,
    edited_list,
    edited_list_in_steps,
    java_double,
    parse_type,
    split_list,
    to_text,
)
from kpybroker.runtime.calls.steps import at_once
from oracle.configs import ask

STANDALONE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
}
ODD_TEXTS = {
    "int": [
        "0",
        "1",
        "-1",
        "+7",
        " 9 ",
        "5\t",
        "2147483647",
        "2147483648",
        "-2147483649",
        "1_0",
        "1.0",
        "0x10",
        "",
        "x",
    ],
    "short": ["1", "32767", "32768", "-32769", "one"],
    "long": ["0", "-2", "9223372036854775807", "9223372036854775808", "1e3", "10L", "٣"],
    "double": [
        "0",
        "0.5",
        "1",
        "1.5",
        "-0.1",
        "1e-1",
        "5d",
        ".5",
        "1f",
        "1_0.0",
        "inf",
        "infinity",
        "0.5 ",
        "e",
        "",
        "-",
    ],
    "boolean": ["true", "TRUE", " False ", "yes", "1", ""],
    "list": [
        "",
        ",",
        "delete",
        "delete,compact",
        " compact , delete ",
        "delete,delete",
        "compact,x",
        "compact,,delete",
    ],
    "string": ["", " a ", "producer", "GZIP", "gzip", "zstd ", "LogAppendTime", "logappendtime", "CreateTime"],
}


def odd_cases() -> list[tuple[str, str]]:
    """(topic config, text) pairs: every topic config with every odd text of its type, and the edges of its range."""
    cases = [(key.name, text) for key in TOPIC_CONFIGS.values() for text in ODD_TEXTS[key.type]]
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        cases += [
            (name, text) for text in ("*", "*,1:2", "1:2", "1:2,3:4", "1", "1:2:3", "a:b", "1:", "٣:1", " 0:1 , 1:2")
        ]
    cases += [("compression.gzip.level", str(level)) for level in range(-2, 11)]
    cases += [("compression.zstd.level", text) for text in ("-131072", "-131073", "22", "23", "0")]
    cases += [("segment.bytes", "1048576"), ("segment.bytes", "1048575"), ("retention.ms", "-2")]
    return cases


def our_refusal(name: str, text: str) -> str | None:
    try:
        TOPIC_CONFIGS[name].parse(text)
    except ConfigError as error:
        return error.message
    return None


@pytest.mark.java
def test_topic_values_are_taken_and_refused_as_by_kafka():
    # remote.storage.enable=true is refused for what the broker is, not for what the text is
    cases = [case for case in odd_cases() if case[0] != "remote.storage.enable"]
    answers = ask({"do": "topic", "static": STANDALONE, "props": {name: text}} for name, text in cases)
    lags = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    expected = {
        case: answer.get("error")
        for case, answer in zip(cases, answers, strict=True)
        if not (case[0] in lags and "conflict" in answer.get("error", ""))
    }
    assert {case: our_refusal(*case) for case in expected} == expected


@pytest.mark.java
def test_broker_values_are_shown_as_by_kafka():
    """Every broker config, set to a text with white space around its default, reads back as Kafka shows it."""
    skipped = {"process.roles", "node.id", "broker.id", "controller.listener.names", "listeners"}
    skipped |= {"controller.quorum.voters", "controller.quorum.bootstrap.servers", "advertised.listeners"}
    skipped |= {"listener.security.protocol.map"}
    texts = {
        key.name: f" {to_text(key.default)} "
        for key in BROKER_CONFIGS.values()
        if key.name not in skipped and key.default not in (None, (), "") and key.type not in ("class", "password")
    }
    (answer,) = ask([{"do": "broker", "props": {**STANDALONE, **texts}}])
    assert {name: to_text(BROKER_CONFIGS[name].parse(text)) for name, text in texts.items()} == {
        name: answer["values"][name] for name in texts
    }


def test_doubles_print_as_in_java():
    pairs = {0.5: "0.5", 1.0: "1.0", 0.0: "0.0", 1e-3: "0.001", 9e-4: "9.0E-4", 1e7: "1.0E7", 9999999.0: "9999999.0"}
    pairs |= {1.7976931348623157e308: "1.7976931348623157E308", 1.5e-10: "1.5E-10", -123456789.25: "-1.2345678925E8"}
    pairs |= {float("inf"): "Infinity", 100.0: "100.0", 1234567.875: "1234567.875"}
    assert {number: java_double(number) for number in pairs} == pairs


def test_a_password_does_not_print_itself():
    value = parse_type("ssl.key.password", "s3cret", "password")
    assert value == Password("s3cret")
    assert "s3cret" not in f"{value!r} {value} {to_text(value)}"


@given(st.floats(allow_nan=False))
def test_a_printed_double_reads_back(number):
    assert parse_type("x", java_double(number), "double") == number


@given(st.lists(st.text(alphabet="ab.-", min_size=1, max_size=5), max_size=5))
def test_a_printed_list_reads_back(words):
    assert split_list(to_text(tuple(words)) or "") == tuple(words)


def test_random_texts_are_never_more_than_refused():
    rng = random.Random(7)
    for _ in range(2000):
        key = rng.choice(list(BROKER_CONFIGS.values()))
        text = "".join(rng.choices("0123456789-+.,:eE@[]/ abT_%\x00é", k=rng.randrange(12)))
        with suppress(ConfigError):
            assert to_text(key.parse(text)) is not None


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=6),
    st.lists(st.sampled_from(["a", "b", "c", "e", ""]), max_size=6),
    st.booleans(),
)
def test_a_long_list_is_edited_in_steps_as_at_once(before: list[str], by: list[str], subtracts: bool) -> None:
    whole = edited_list(",".join(before), ",".join(by), subtracts=subtracts)
    steps = edited_list_in_steps(",".join(before), ",".join(by), subtracts=subtracts)
    next(steps)
    next(steps)
    assert at_once(steps) == whole
