"""Apache Kafka's transaction coordinator in a JVM, by lines of text (``TransactionOracle.java``)."""

from typing import NamedTuple

from oracle.asked import AskedOracle


class Outcome(NamedTuple):
    """The answer of Kafka to one step, what it wrote, and which markers it wants written."""

    answers: list[str]
    records: list[tuple[bytes, bytes | None]]
    markers: list[str]


class KafkaTransactions(AskedOracle):
    """One coordinator at a time; ``reset`` makes a new one."""

    def __init__(self) -> None:
        super().__init__("TransactionOracle.java", "kafka.coordinator.transaction.TransactionOracle")

    def ask(self, *words: object) -> Outcome:
        outcome = Outcome([], [], [])
        for word in self.ask_for_line(*words).split("\t"):
            kind, _, rest = word.partition(" ")
            if kind == "A":
                outcome.answers.append(rest)
            elif kind == "W":
                key, value = rest.split(" ")
                outcome.records.append((bytes.fromhex(key), None if value == "-" else bytes.fromhex(value)))
            elif kind == "M":
                outcome.markers.append(rest)
        return outcome
