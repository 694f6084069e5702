"""Kafka's own tools print what is recorded for the lines of `image_commands`, and have the recorded options.

``expected/image_commands.txt`` and ``expected/image_options.txt`` are written with ``--record``. The tools of the image
are held against them in ``tests/kafka_tools``.
"""

import re

import pytest

from oracle import ApacheKafka
from support.image_commands import (
    BROKER,
    EXPECTED,
    LINES,
    OPTIONS,
    TOOLS,
    expected,
    line_of,
    numbered,
    options,
    outcome,
)
from support.java_tools import JavaTools

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, java_tools: JavaTools, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """The outcome of each line."""
    found: dict[str, str] = {}
    files = tmp_path_factory.mktemp("files")
    with ApacheKafka(BROKER) as broker:
        for text in LINES:
            tool, arguments, stdin = line_of(text, broker.bootstrap_servers, files)
            done = java_tools.run(tool, *arguments, stdin=stdin)
            found[numbered(text, found)] = outcome(tool, done.exit_code, done.out)
    if request.config.getoption("--record"):
        EXPECTED.write_text("".join(f"$ {line}\n{text}\n" for line, text in found.items()))
    return found


@pytest.mark.parametrize("line", expected() if EXPECTED.exists() else [])
def test_a_line_has_the_recorded_outcome(outcomes: dict[str, str], line: str) -> None:
    assert outcomes[line] == expected()[line]


def test_the_options_of_kafkas_tools_are_recorded(request: pytest.FixtureRequest, java_tools: JavaTools) -> None:
    found = {}
    for tool in TOOLS:
        done = java_tools.run(tool, "--help")
        found[tool] = sorted(set(re.findall(r"(?m)^(--[a-z][a-z.-]+)", done.out + done.err)))
    if request.config.getoption("--record"):
        OPTIONS.write_text("".join(f"{tool} {' '.join(names)}\n" for tool, names in found.items()))
    assert found == options()
