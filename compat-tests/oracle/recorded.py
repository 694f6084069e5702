"""Answers that Apache Kafka gave once, for quick tests: they need no JVM, and compare with the same answers.

A test asks the same questions each time, since it is seeded. A recording has a checksum of each question beside its
answer, so that another question is noticed. `pytest --record-kafka` asks Kafka again and writes the recording.
"""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import pytest

from oracle.jars import compile_java, java


class Asked(Protocol):
    """A JVM that is asked by lines, or the recording of one."""

    def ask_for_line(self, *words: object) -> str:
        """The answer to one question."""
        ...

    def close(self) -> None:
        """Nothing more is asked."""
        ...


Play = Callable[[Callable[[], Asked]], Asked]
"""The fixture `recorded`: it takes a function that starts a JVM."""


class Recording:
    """The file with the recorded answers of a suite, in sections: one for each test."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: dict[str, list[list[Any]]] = {}
        if path.exists():
            self._sections = json.loads(gzip.decompress(path.read_bytes()))

    def play(self, section: str) -> "Recorded":
        """The answers of a section."""
        return Recorded(self._sections.get(section, []))

    def record(self, section: str, kafka: Asked) -> "Recorder":
        """Ask Kafka, and keep its answers as a section."""
        answers = self._sections[section] = []
        return Recorder(kafka, answers, self._save)

    def _save(self) -> None:
        text = json.dumps(self._sections, separators=(",", ":"), sort_keys=True)
        self._path.parent.mkdir(exist_ok=True)
        self._path.write_bytes(gzip.compress(text.encode(), mtime=0))


class Recorded:
    """Kafka as it answered when it was recorded."""

    def __init__(self, answers: list[list[Any]]) -> None:
        self._answers = iter(answers)

    def ask_for_line(self, *words: object) -> str:
        """The recorded answer."""
        asked, answer = next(self._answers, (None, ""))
        assert asked == _checksum(words), f"this question was not recorded (--record-kafka does): {words}"
        return str(answer)

    def close(self) -> None:
        """Nothing is open."""


class Recorder:
    """Kafka, with all its answers kept."""

    def __init__(self, kafka: Asked, answers: list[list[Any]], save: Callable[[], None]) -> None:
        self._kafka = kafka
        self._answers = answers
        self._save = save

    def ask_for_line(self, *words: object) -> str:
        """The answer, which is kept."""
        answer = self._kafka.ask_for_line(*words)
        self._answers.append([_checksum(words), answer])
        return answer

    def close(self) -> None:
        """Write the recording."""
        self._kafka.close()
        self._save()


def _checksum(words: tuple[object, ...]) -> int:
    return crc32("\t".join(map(str, words)).encode())


class AskedAtOnce:
    """A program that reads all questions, one in a line, and prints its answers."""

    def __init__(self, source: Path) -> None:
        self._source = source

    def ask_for_line(self, *words: object) -> str:
        """All answers, for all questions."""
        stdin = "".join(f"{each}\n" for each in words)
        finished = java(self._source.stem, classes=[compile_java(self._source)], stdin=stdin)
        assert finished.returncode == 0, finished.stderr[-2_000:]
        return finished.stdout

    def close(self) -> None:
        """The program has ended."""


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Iterator[Play]:
    """Gives the recorded answers of Apache Kafka for this test, or starts it with `--record-kafka` and records them."""
    recording = Recording(request.path.parent / "recorded" / f"{request.path.stem.removeprefix('test_')}.json.gz")
    opened: list[Asked] = []

    def play_or_record(start: Callable[[], Asked]) -> Asked:
        is_recording = request.config.getoption("--record-kafka")
        name = request.node.name
        opened.append(recording.record(name, start()) if is_recording else recording.play(name))
        return opened[-1]

    yield play_or_record
    for each in opened:
        each.close()
