"""Apache Kafka's share coordinator in a JVM, by lines of text (``ShareCoordinatorOracle.java``)."""

from typing import NamedTuple

from oracle.asked import AskedOracle
from oracle.recorded import Asked


class Outcome(NamedTuple):
    """The answer of Kafka to one step, and the records it wrote."""

    answer: str
    records: list[tuple[bytes, bytes | None]]


def started() -> AskedOracle:
    return AskedOracle("ShareCoordinatorOracle.java", "org.apache.kafka.coordinator.share.ShareCoordinatorOracle")


class KafkaShareCoordinator:
    """One coordinator at a time; ``reset`` makes a new one."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    def ask(self, *words: object) -> Outcome:
        outcome = Outcome("", [])
        for word in self._asked.ask_for_line(*words).split("\t"):
            kind, _, rest = word.partition(" ")
            if kind == "A":
                outcome = outcome._replace(answer=rest)
            elif kind == "W":
                key, value = rest.split(" ")
                outcome.records.append((bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)))
        return outcome

    def close(self) -> None:
        self._asked.close()
