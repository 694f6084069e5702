"""Apache Kafka's own answers about configuration: what it defines, accepts and says (runs ``Configs.java``)."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from oracle.jars import compile_java, java

Answer = dict[str, Any]


def ask(commands: Iterable[Mapping[str, Any]]) -> list[Answer]:
    """Put commands (see ``Configs.java``) to one JVM; one answer each, in order; ``error`` in it is a refusal."""
    source = Path(__file__).with_name("Configs.java")
    lines = [json.dumps(command) for command in commands]
    finished = java("Configs", classes=[compile_java(source)], stdin="\n".join(lines) + "\n")
    answers: list[Answer] = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
    if finished.returncode != 0 or len(answers) != len(lines):
        raise RuntimeError(f"Configs.java answered {len(answers)} of {len(lines)} commands:\n{finished.stderr}")
    return answers


def dump() -> Answer:
    """Every config definition of Kafka's server side, with synonyms and update modes."""
    return ask([{"do": "dump"}])[0]
