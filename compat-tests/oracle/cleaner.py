"""Apache Kafka's log cleaner without a broker around it: it is given the directory of a partition, and compacts it."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from oracle.jars import HERE, KAFKA_LOG, classpath, compile_java, jvm
from oracle.quick import LOGGING

PATIENCE_S = 30


class KafkaCleaned(NamedTuple):
    """The figures of a pass by Kafka's cleaner (its CleanerStats); ``took_ns`` is measured around it."""

    end_offset: int
    map_messages_read: int
    bytes_read: int
    messages_read: int
    bytes_written: int
    messages_written: int
    invalid_messages_read: int
    took_ns: int


class KafkaCleaner:
    """One Java process for as many logs as wanted, one after the other; a context manager."""

    def __init__(self, *options: str) -> None:
        log = compile_java(KAFKA_LOG)
        classes = compile_java(HERE / "CleanerOracle.java", log)
        like_brokers = ["java", *options, LOGGING, "-cp", classpath(classes, log)]
        command = like_brokers if options else jvm(classes, log)
        self._process = subprocess.Popen(
            [*command, "CleanerOracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)

    def compact(
        self,
        directory: Path,
        config: dict[str, object],
        *,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        high_watermark: int,
        now_ms: int,
        map_bytes: int,
        load_factor: float,
        buffer_bytes: int,
    ) -> tuple[KafkaCleaned, str]:
        """Compact the partition in ``directory``, which was cleanly closed; also the last records of its producers.

        These are written as ``producer:offset:epoch``, the offset -1 where there is none.
        """
        self._tell("now", now_ms)
        self._tell("open", directory, ",".join(f"{name}={value}" for name, value in config.items()))
        producers = self._ask("last")
        sizes = (map_bytes, load_factor, buffer_bytes)
        figures = self._ask("clean", first_dirty_offset, first_uncleanable_offset, *sizes, high_watermark)
        if figures.startswith("error"):
            raise RuntimeError(figures)
        self._tell("close")
        return KafkaCleaned._make(map(int, figures.split())), producers

    def _ask(self, *words: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().rstrip("\n")

    def _tell(self, *words: object) -> None:
        answer = self._ask(*words)
        if answer != "ok":
            raise RuntimeError(f"{words[0]}: {answer}")
