"""Kafka's scripts as small ones of ours, which start Kafka's classes."""

import shlex
from pathlib import Path

from oracle.jars import jvm


def with_scripts(directory: Path) -> Path:
    """The directory, with the three scripts that tutorials use."""
    java = shlex.join(jvm())
    scripts = {
        "kafka-storage": f'exec {java} kafka.tools.StorageTool "$@" > storage.log',
        "kafka-server-start": f"nohup {java} kafka.Kafka $2 > server.log 2>&1 & echo $! > kafka.pid",
        "kafka-server-stop": "kill $(cat kafka.pid); while kill -0 $(cat kafka.pid) 2> /dev/null; do sleep 0.1; done",
    }
    (directory / "bin").mkdir()
    for name, command in scripts.items():
        path = directory / "bin" / f"{name}.sh"
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)
    return directory
