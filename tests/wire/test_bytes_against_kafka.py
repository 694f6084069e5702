"""Our bytes are those that Apache Kafka's own classes wrote when they were asked: every message at every version.

The answers are recorded as checksums. `test_byte_oracle` asks a JVM, and compares more messages byte by byte.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from zlib import crc32

import pytest
from all_messages import java_name, message_classes
from message_values import random_message
from test_byte_oracle import (
    OF_ZOOKEEPER_MODE,
    is_stricter,
    json_line,
    kafkas_spelling,
    mutate,
    refusal,
    written_at,
)

from kpywire import codec
from oracle.asked import AskedOracle
from oracle.recorded import Play

MESSAGES_PER_VERSION = 3
DAMAGED_PER_VERSION = 4
CLASSES = {java_name(cls): cls for cls in message_classes().values() if not OF_ZOOKEEPER_MODE.search(cls.__name__)}
"""Without those that Kafka 4 does not have."""
KINDS = ("written", "default", "of another version", "damaged")


class Case(NamedTuple):
    """One line for `ByteOracle.java`: its first word, the version, the message that it has as JSON, and the words
    behind that."""

    verb: str
    version: int
    message: Any
    more: tuple[object, ...]
    ours: str
    """The answer that is expected."""


def cases(kind: str, cls: Any) -> Iterator[Case]:
    """The same each time."""
    rng = Random(f"{kind} {cls.__name__}")
    newest = cls.VERSIONS[-1]
    for version in cls.VERSIONS:
        match kind:
            case "written":
                for _ in range(MESSAGES_PER_VERSION):
                    message = random_message(cls, version, rng)
                    yield Case("write", version, message, (version,), codec.encode(message, version).hex())
            case "default":
                yield Case("default", version, None, (), codec.encode(cls(), version).hex())
            case "of another version":
                message = random_message(cls, newest, rng)
                yield Case("write", version, message, (newest,), written_at(message, version))
            case "damaged":
                for _ in range(DAMAGED_PER_VERSION):
                    damaged = bytes(mutate(codec.encode(random_message(cls, version, rng, 2), version), rng))
                    yield Case("read", version, None, (damaged.hex(),), refusal(cls, version, damaged) or "")


class KafkasClasses:
    """Kafka's message classes in a JVM."""

    def __init__(self) -> None:
        self._kafka = AskedOracle("ByteOracle.java", "ByteOracle")

    def ask_for_line(self, *words: object) -> str:
        """The summaries of Kafka's answers for all cases of a kind and a class."""
        kind, name = map(str, words)
        answers = []
        for case in cases(kind, CLASSES[name]):
            text = [] if case.message is None else [json_line(case.message, _read_at(case), kafkas_spelling())]
            answer = self._kafka.ask_for_line(case.verb, name, case.version, *text, *case.more)
            answers.append(summary(kind, answer))
        return " ".join(answers)

    def close(self) -> None:
        """End it."""
        self._kafka.close()


def _read_at(case: Case) -> int:
    (version,) = case.more
    assert isinstance(version, int)
    return version


def summary(kind: str, answer: str) -> str:
    """A checksum of bytes, or "!" for an answer that says that they are refused."""
    if kind == "damaged":
        return "!" if answer.startswith("!") else "read"
    return f"{crc32(answer.encode()):x}"


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "damaged"])
def test_messages_have_the_bytes_that_kafkas_classes_wrote(recorded: Play, kind: str) -> None:
    kafka = recorded(KafkasClasses)
    for name, cls in CLASSES.items():
        ours = " ".join(summary(kind, case.ours) for case in cases(kind, cls))
        assert ours == kafka.ask_for_line(kind, name), name


def test_damaged_bytes_are_refused_that_kafkas_classes_refused(recorded: Play) -> None:
    """And no others, except in tagged sections and for lengths that no message has."""
    kafka = recorded(KafkasClasses)
    stricter = 0
    for name, cls in CLASSES.items():
        answers = kafka.ask_for_line("damaged", name).split(" ")
        for case, answer in zip(cases("damaged", cls), answers, strict=True):
            assert bool(case.ours) == (answer == "!") or is_stricter(case.ours), (name, case, answer)
            stricter += bool(case.ours) and answer != "!"
    assert stricter < 60


def test_what_is_written_is_read_again() -> None:
    for cls in CLASSES.values():
        for case in cases("written", cls):
            data = bytes.fromhex(case.ours)
            assert codec.decoder(cls, case.version)(b"before" + data + b"behind", 6) == (case.message, 6 + len(data))
