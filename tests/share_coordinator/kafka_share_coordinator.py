"""Apache Kafka's share coordinator in a JVM, by lines of text (``ShareCoordinatorOracle.java``)."""

from typing import NamedTuple

from oracle.asked import AskedOracle


class Outcome(NamedTuple):
    """The answer of Kafka to one step, and the records it wrote."""

    answer: str
    records: list[tuple[bytes, bytes | None]]


class KafkaShareCoordinator(AskedOracle):
    """One coordinator at a time; ``reset`` makes a new one."""

    def __init__(self) -> None:
        super().__init__("ShareCoordinatorOracle.java", "org.apache.kafka.coordinator.share.ShareCoordinatorOracle")

    def ask(self, *words: object) -> Outcome:
        outcome = Outcome("", [])
        for word in self.ask_for_line(*words).split("\t"):
            kind, _, rest = word.partition(" ")
            if kind == "A":
                outcome = outcome._replace(answer=rest)
            elif kind == "W":
                key, value = rest.split(" ")
                outcome.records.append((bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)))
        return outcome
