"""Apache Kafka's transaction coordinator in a JVM, by lines of text (``TransactionOracle.java``)."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import oracle


class Outcome(NamedTuple):
    """What Kafka answered to one step, what it wrote, and which markers it wants written."""

    answers: list[str]
    records: list[tuple[bytes, bytes | None]]
    markers: list[str]


class KafkaTransactions:
    """One coordinator at a time; ``reset`` makes a new one."""

    def __init__(self) -> None:
        classes = oracle.compile_java(Path(oracle.__file__).with_name("TransactionOracle.java"))
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", oracle.jars.LOGGING]
        command += ["-cp", oracle.classpath(classes), "kafka.coordinator.transaction.TransactionOracle"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> Outcome:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join(map(str, words)) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "Kafka's coordinator has failed"
        outcome = Outcome([], [], [])
        for word in line.rstrip("\n").split("\t"):
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
        self._process.kill()
        self._process.communicate()
