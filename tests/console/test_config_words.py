"""The values of configs in words, and words typed as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.own_configs import OWN_CONFIGS
from kpybroker.config.topic_configs import TOPIC_CONFIGS
from kpybroker.machines.config_def import DOUBLE, INT, INT_MAX, LIST, LONG, LONG_MAX, STRING
from kpybroker.machines.console.config_words import (
    ABOUT,
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    NO_LIMIT,
    SECOND_MS,
    retention_words,
    value_of,
    words_of,
)

TIMES = (SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS)
SIZES = (1 << 10, 1 << 20, 1 << 30, 1 << 40)
NAMED = {"ms": 1, "seconds": SECOND_MS, "minutes": MINUTE_MS, "hours": HOUR_MS, "bytes": 1}


@pytest.mark.parametrize(
    ("name", "kind", "value", "words"),
    [
        ("retention.ms", LONG, "604800000", "7 days"),
        ("retention.ms", LONG, "-1", NO_LIMIT),
        ("retention.ms", LONG, str(LONG_MAX), "about 106\u202f751\u202f991\u202f167.3 days"),
        ("retention.bytes", LONG, "-1", NO_LIMIT),
        ("retention.bytes", LONG, "1610612736", "1.5 GiB"),
        ("local.retention.ms", LONG, "-2", ""),
        ("remote.copy.lag.bytes", LONG, "-1", ""),
        ("flush.ms", LONG, str(LONG_MAX), NO_LIMIT),
        ("flush.messages", LONG, str(LONG_MAX), NO_LIMIT),
        ("max.connections", INT, str(INT_MAX), NO_LIMIT),
        ("group.max.size", INT, str(INT_MAX), NO_LIMIT),
        ("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", NO_LIMIT),
        ("num.partitions", INT, str(INT_MAX), ""),
        ("segment.bytes", INT, "1073741824", "1 GiB"),
        ("max.message.bytes", INT, "1048588", "about 1 MiB"),
        ("max.message.bytes", INT, "1000", ""),
        ("log.cleaner.dedupe.buffer.size", LONG, "134217728", "128 MiB"),
        ("log.retention.hours", INT, "168", "7 days"),
        ("log.retention.hours", INT, "1", "1 hour"),
        ("segment.ms", LONG, "5400000", "90 minutes"),
        ("segment.ms", LONG, "1500", "1.5 seconds"),
        ("segment.ms", LONG, "123456789", "about 1.4 days"),
        ("segment.ms", LONG, "86400001", "about 1 day"),
        ("segment.ms", LONG, "999", ""),
        ("segment.jitter.ms", LONG, "0", ""),
        ("cleanup.policy", LIST, "compact", ""),
        ("some.ms", STRING, "1000", ""),
        ("some.ms", LONG, None, ""),
        ("some.ms", LONG, "²", ""),
    ],
)
def test_a_value_in_words(name: str, kind: str, value: str | None, words: str) -> None:
    assert words_of(name, kind, value) == words


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", "7 days", "604800000"),
        ("retention.ms", " 7d ", "604800000"),
        ("retention.ms", "1 week", "604800000"),
        ("retention.ms", "1.5 Hours", "5400000"),
        ("retention.ms", "90 min", "5400000"),
        ("retention.ms", "5s", "5000"),
        ("retention.ms", "12 ms", "12"),
        ("retention.ms", "No limit", "-1"),
        ("retention.ms", "unlimited", "-1"),
        ("flush.ms", "no limit", str(LONG_MAX)),
        ("retention.bytes", "1 GiB", "1073741824"),
        ("retention.bytes", "1 GB", "1000000000"),
        ("retention.bytes", "1.5 MiB", "1572864"),
        ("retention.bytes", "12 bytes", "12"),
        ("log.retention.hours", "7 days", "168"),
    ],
)
def test_typed_words_are_a_value(name: str, text: str, value: str) -> None:
    assert value_of(name, LONG, text) == value


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("retention.ms", LONG, "604800000"),
        ("retention.ms", LONG, "-1"),
        ("retention.ms", LONG, "7 GiB"),
        ("retention.ms", LONG, "a while"),
        ("retention.ms", LONG, "0.3 ms"),
        ("retention.ms", LONG, "seven days"),
        ("retention.ms", LONG, ""),
        ("retention.ms", LONG, "٣ days"),
        ("retention.ms", LONG, "9" * 1_000 + " days"),
        ("retention.bytes", LONG, "7 days"),
        ("log.retention.hours", INT, "90 minutes"),
        ("num.partitions", INT, "no limit"),
        ("num.partitions", INT, "3 days"),
        ("cleanup.policy", LIST, "no limit"),
    ],
)
def test_other_texts_are_left_to_kafka(name: str, kind: str, text: str) -> None:
    assert value_of(name, kind, text) == text


@given(st.sampled_from(sorted(NAMED)), st.integers(1, 100_000), st.sampled_from(TIMES), st.sampled_from(SIZES))
def test_the_words_of_a_round_value_are_that_value_again(unit: str, number: int, time: int, size: int) -> None:
    total = number * (size if unit == "bytes" else time)
    if total % NAMED[unit]:
        return
    name, value = f"some.{unit}", str(total // NAMED[unit])
    words = words_of(name, LONG, value)
    assert words
    assert words.startswith(ABOUT) or value_of(name, LONG, words) == value


@given(st.sampled_from(sorted(NAMED)), st.integers(1, 999), st.sampled_from(TIMES), st.sampled_from(SIZES))
def test_a_round_value_is_never_about_something(unit: str, number: int, time: int, size: int) -> None:
    total = number * (size if unit == "bytes" else time)
    if total % NAMED[unit] == 0:
        words = words_of(f"some.{unit}", LONG, str(total // NAMED[unit]))
        assert words
        assert not words.startswith(ABOUT)


@given(st.sampled_from(sorted(NAMED)), st.integers(-2, LONG_MAX))
def test_words_that_are_not_about_a_value_are_exactly_that_value(unit: str, number: int) -> None:
    words = words_of(f"some.{unit}", LONG, str(number))
    if words and not words.startswith(ABOUT):
        assert value_of(f"some.{unit}", LONG, words) == str(number)


@given(st.sampled_from(sorted(NAMED)), st.text())
def test_any_text_may_be_typed(unit: str, text: str) -> None:
    assert isinstance(value_of(f"some.{unit}", LONG, text), str)


def test_the_words_of_each_default_of_kafka_are_that_default_again() -> None:
    for definitions in (TOPIC_CONFIGS, BROKER_CONFIGS, OWN_CONFIGS):
        for key in definitions.values():
            if isinstance(key.default, int) and not isinstance(key.default, bool):
                words = words_of(key.name, key.type, str(key.default))
                if words and not words.startswith(ABOUT):
                    assert value_of(key.name, key.type, words) == str(key.default), key


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        (("delete", "604800000", "-1"), "7 days"),
        (("delete", "604800000", "1073741824"), "7 days or 1 GiB"),
        (("delete", "-1", "-1"), NO_LIMIT),
        (("delete", "12", "7"), "12 ms or 7 bytes"),
        (("compact", "604800000", "-1"), "the last record of each key"),
        (("compact,delete", "604800000", None), "7 days"),
        (("", "604800000", "-1"), NO_LIMIT),
    ],
)
def test_retention_in_words(configs: tuple[str, str | None, str | None], words: str) -> None:
    assert retention_words(*configs) == words
