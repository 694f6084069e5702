"""A Java program that is asked by lines of text until it is closed, with the jars for remote segments."""

import subprocess

from oracle.jars import HERE, KAFKA_VERSION, compile_java, jvm
from oracle.remote import remote_jars


class JavaProgram:
    """``name`` is a file of the oracle and its class."""

    def __init__(self, name: str, *arguments: object, release: str = KAFKA_VERSION) -> None:
        jars = remote_jars()
        classes = compile_java(HERE / f"{name}.java", jars, release=release)
        command = [*jvm(classes, jars, heap="512m", release=release), name, *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, *words: object) -> str:
        """The line that it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the Java program has ended"
        return line.rstrip("\n")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
