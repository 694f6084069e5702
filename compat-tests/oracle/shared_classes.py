"""Kafka's classes as JVMs map them into memory (class data sharing), in place of reading and verifying them.

The archive of a directory of jars is made once, of the classes that a broker uses from its start to its end; it stays
in ``build/``. A JVM takes it if its class path begins with these jars, and otherwise starts as it does without.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from oracle.process import HOST, BrokerProcess, BrokerProcessError, free_port
from oracle.quick import LOGGING, QUICK

CLUSTER_ID: Final = "c2hhcmVkLWNsYXNzZXMtMQ"


def shared_classes(jars: Path) -> list[str]:
    """The options with which a JVM takes the archive of the jars in a directory; it is made at the first call."""
    home = Path(shutil.which("java") or "java").resolve().parents[1]
    archive = jars.parents[1] / "shared-classes" / home.name / f"{jars.parent.name}.jsa"
    if not _is_made(archive, jars):
        archive.parent.mkdir(parents=True, exist_ok=True)
        with open(archive.with_suffix(".making"), "w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            if not _is_made(archive, jars):
                _make(jars, archive)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []


def _is_made(archive: Path, jars: Path) -> bool:
    return archive.exists() and archive.stat().st_mtime >= jars.stat().st_mtime


def _make(jars: Path, archive: Path) -> None:
    """Make the archive; an empty file where this JVM cannot."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as work:
        broker = ArchivingBroker(jars, Path(work))
        with contextlib.suppress(BrokerProcessError), broker:
            pass
        broker.archive.touch()
        os.replace(broker.archive, archive)


class ArchivingBroker(BrokerProcess):
    """A broker that writes the classes that it has used into ``archive`` when it ends."""

    program = "Apache Kafka"
    stop_timeout_s = 120.0

    def __init__(self, jars: Path, directory: Path) -> None:
        super().__init__(directory, free_port())
        self.archive = directory / "archive"
        self._properties = directory / "server.properties"
        self._controller = f"{HOST}:{free_port()}"
        self._java = ("java", *QUICK, "-Xmx384m", LOGGING)
        self._class_path = ("-cp", f"{jars}/*")

    def prepare(self) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},CONTROLLER://{self._controller}",
            "controller.quorum.bootstrap.servers": self._controller,
            "log.dirs": str(self.data),
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        words = ("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties))
        command = [*self._java, *self._class_path, *words]
        formatted = subprocess.run(command, capture_output=True, text=True, check=False)
        if formatted.returncode != 0:
            raise BrokerProcessError(f"kafka-storage format:\n{formatted.stdout}{formatted.stderr}")

    def command(self) -> Sequence[str]:
        archiving = f"-XX:ArchiveClassesAtExit={self.archive}"
        return [*self._java, archiving, *self._class_path, "kafka.Kafka", str(self._properties)]
