"""The tools of the image print what Kafka's own print, and end with the same exit codes.

The lines and the outcomes of Kafka's tools are in `image_commands`; they follow one another on one broker.
"""

import io
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from kpybroker.cli.kafka_tools.__main__ import WITH_OPTIONS, main
from kpybroker.testing import Broker
from release.documents.image import NOT_HERE
from support.image_commands import BROKER, LINES, expected, line_of, numbered, options, outcome

OTHERWISE: Final = {
    "kafka-console-producer --topic junk --property no.such=property <<< 'x\\n'": "exit 1",
    "kafka-console-consumer --topic keyed --from-beginning --max-messages 1 --property no.such=property "
    "--timeout-ms 8000": "exit 1",
    "kafka-consumer-groups --describe --group g --offsets --verbose": (
        "GROUP TOPIC PARTITION LEADER-EPOCH CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
        "g keyed 0 - 4 4 0 - - -\nexit 0"
    ),
}
"""Properties that are not known are refused, where Kafka's tools ignore them, and commits have no epoch of a leader."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The outcome of each line."""
    found: dict[str, str] = {}
    with Broker(config=BROKER) as broker, pytest.MonkeyPatch.context() as patch:
        files = tmp_path_factory.mktemp("files")
        for text in LINES:
            tool, arguments, stdin = line_of(text, broker.bootstrap_servers, files)
            printed = io.BytesIO()
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            patch.setattr(sys, "stdout", io.TextIOWrapper(printed, "utf-8", write_through=True))
            patch.setattr(sys, "stderr", io.StringIO())
            code = main(f"/opt/kafka/bin/{tool}.sh", arguments)
            found[numbered(text, found)] = outcome(tool, code, printed.getvalue().decode())
        yield found


@pytest.mark.parametrize("line", expected())
def test_a_line_has_the_outcome_of_kafkas_tool(outcomes: dict[str, str], line: str) -> None:
    assert outcomes[line] == OTHERWISE.get(line, expected()[line])


def test_every_line_is_recorded(outcomes: dict[str, str]) -> None:
    assert list(outcomes) == list(expected())


@pytest.mark.parametrize("tool", options())
def test_every_option_of_kafkas_tool_is_known_or_refused_for_a_reason(tool: str) -> None:
    known = {name for action in WITH_OPTIONS[tool].options().actions() for name in action.option_strings}
    refused = {name for name in options()[tool] if name not in known}
    assert refused <= set(NOT_HERE)
    assert not refused & known


@pytest.mark.parametrize("name", NOT_HERE)
def test_a_refused_option_is_one_of_kafkas(name: str) -> None:
    assert any(name in names for names in options().values())
