"""JVMs with Kafka's jars map classes from an archive, and start without one where it cannot be made."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from oracle.jars import jvm
from oracle.shared_classes import shared_classes


@pytest.mark.java
def test_kafkas_classes_come_from_the_archive_also_with_classes_behind_them(tmp_path: Path) -> None:
    (tmp_path / "Ours.class").touch()
    log = tmp_path / "loaded"
    command = [*jvm(tmp_path), f"-Xlog:class+load:file={log}", "kafka.Kafka", "--version"]
    subprocess.run(command, check=True, capture_output=True)
    loaded = [
        line for line in log.read_text().splitlines() if re.search(r" (kafka|org\.apache\.kafka\.common)\.", line)
    ]
    assert loaded
    assert [line for line in loaded if not line.endswith("source: shared objects file (top)")] == []


def test_a_jvm_that_makes_no_archive_is_asked_once_and_gets_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    java = tmp_path / "jdk" / "bin" / "java"
    jars = tmp_path / "kafka" / "libs"
    for directory in (java.parent, jars):
        directory.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho again >> {asked}\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(java.parent), os.environ["PATH"])))
    assert shared_classes(jars) == []
    assert shared_classes(jars) == []
    assert asked.read_text() == "again\n"
