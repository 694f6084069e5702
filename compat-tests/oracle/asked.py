"""A class of ours in a JVM beside Kafka's, asked by lines of text: words between tabs, one line for an answer."""

import subprocess
from pathlib import Path

from oracle.jars import KAFKA_VERSION, compile_java, jvm

HERE = Path(__file__).parent


class AskedOracle:
    """Runs ``main_class`` of ``source``, a file beside this one, until it is closed. ``others`` are files it needs,
    ``release`` is the version of Kafka."""

    def __init__(self, source: str, main_class: str, *others: str, release: str = KAFKA_VERSION) -> None:
        classes = compile_java(HERE / source, beside=[HERE / each for each in others], release=release)
        command = [*jvm(classes, release=release), main_class]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask_for_line(self, *words: object) -> str:
        """The answer, without its end of line."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write("\t".join(map(str, words)) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, "Kafka's coordinator has failed"
        return line.rstrip("\n")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
