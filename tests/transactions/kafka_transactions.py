"""Apache Kafka's transaction coordinator in a JVM, by lines of text (``TransactionOracle.java``)."""

from typing import NamedTuple

from oracle.asked import AskedOracle
from oracle.recorded import Asked


class Outcome(NamedTuple):
    """The answer of Kafka to one step, what it wrote, and which markers it wants written."""

    answers: list[str]
    records: list[tuple[bytes, bytes | None]]
    markers: list[str]


def started() -> AskedOracle:
    return AskedOracle("TransactionOracle.java", "kafka.coordinator.transaction.TransactionOracle")


class KafkaTransactions:
    """One coordinator at a time; ``reset`` makes a new one."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def ask(self, *words: object) -> Outcome:
        outcome = Outcome([], [], [])
        for word in self._asked.ask_for_line(*words).split("\t"):
            kind, _, rest = word.partition(" ")
            if kind == "A":
                outcome.answers.append(rest)
            elif kind == "W":
                key, value = rest.split(" ")
                outcome.records.append((bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)))
            elif kind == "M":
                outcome.markers.append(rest)
        return outcome

    def close(self) -> None:
        self._asked.close()
