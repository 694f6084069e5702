"""Lines of scripts and init containers for the tools of Kafka's images, and the parts of their output that count.

The lines are in ``java/image_commands.txt``, and the output of Kafka's own tools of 4.4.0 in
``expected/image_commands.txt``. Words in capitals are the files of `FILES`, and a text behind ``<<<`` is the standard
input. Not here: the runs, by Kafka's tools (`test_image_commands`) and by those of the image (``tests/project``).
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

_HERE: Final = Path(__file__).resolve().parents[1]
LINES: Final = (_HERE / "java" / "image_commands.txt").read_text().splitlines()
EXPECTED: Final = _HERE / "expected" / "image_commands.txt"
OPTIONS: Final = _HERE / "expected" / "image_options.txt"
TOOLS: Final = (
    "kafka-acls",
    "kafka-broker-api-versions",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-consumer-groups",
    "kafka-delete-records",
    "kafka-get-offsets",
    "kafka-topics",
)
"""The tools whose options ``--help`` lists by name."""
FILES: Final[Mapping[str, str]] = {
    "CLIENT": "client.id=script\nsecurity.protocol=PLAINTEXT\n",
    "CONFIGS": "retention.ms=2000\nsegment.bytes=1048576\n",
    "READER": "parse.key=true\nkey.separator=|\n",
    "FORMATTER": "print.offset=true\nline.separator=;\\n\n",
    "OFFSETS": '{"partitions": [{"topic": "keyed", "partition": 0, "offset": 1}], "version": 1}',
}
BROKER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
}
"""The configs of the broker that the lines talk to."""
SERVER_FIRST: Final = {"kafka-features", "kafka-metadata-quorum"}
"""The option of the servers stands before the name of the action."""
_REPLACED: Final = (
    (r"127\.0\.0\.1(:| +)\d+ *", "ADDRESS "),
    (r"(TopicId: |Cluster ID: |ClusterId: +)\S+", r"\1SOME"),
    (r"(HighWatermark: +|LeaderEpoch: +|FinalizedVersionLevel: metadata.version.*Epoch: |Epoch: )\d+", r"\1N"),
    (r"CreateTime:\d+", "CreateTime:NOW"),
    (r"salt=[^,]+|stored_key=[^,]+|server_key=[^,]+", "KEY"),
    (r'"directoryId": "[^"]*"(, "endpoints": \[.*?\])?', "DIRECTORY"),
    (r" +", " "),
    (r"(?m)[ \t]+$", ""),
    (r"(?m)^1 \t.*Leader$", "1 Leader"),
)
_PASSED_OVER: Final = re.compile(r"(Warning: |Option )--[a-z.-]+ (is|has been) deprecated|.*console-consumer-\d+|\tat ")
"""Kafka's console consumer makes up a group where none is named."""


class Line(NamedTuple):
    """A line, ready to run."""

    tool: str
    arguments: list[str]
    stdin: str


def line_of(text: str, bootstrap_servers: str, files: Path) -> Line:
    """The tool with its arguments and its standard input; the files are written to ``files``."""
    command, _, given = text.partition(" <<< ")
    for name, content in FILES.items():
        (files / name).write_text(content)
    tool, *words = (str(files / word) if word in FILES else word for word in command.split())
    server = ["--bootstrap-server", bootstrap_servers]
    if "--zookeeper" in words or "--authorizer-properties" in words or text == tool:
        server = []
    stdin = (shlex.split(given)[0] if given else "").encode().decode("unicode_escape")
    return Line(tool, [*server, *words] if tool in SERVER_FIRST else [*words, *server], stdin)


def normalised(tool: str, text: str) -> str:
    """The output without the parts that differ from run to run, in an order that does not."""
    for pattern, replacement in _REPLACED:
        text = re.sub(pattern, replacement, text)
    text = re.sub(r"(?<=Configs: )\S+", lambda found: ",".join(sorted(found[0].split(","))), text)
    lines = [_shortened(line) for line in text.splitlines() if line.strip() and not _PASSED_OVER.match(line)]
    if tool == "kafka-broker-api-versions":
        lines = [line.partition(" (id:")[0] for line in lines if not line[:1].isspace() and line != ")"]
    if tool in ("kafka-acls", "kafka-topics"):
        return "\n".join(_in_order(lines))
    if tool == "kafka-configs":
        parts = [line.rpartition(" are ") for line in lines]
        lines = [f"{head}{are}{', '.join(sorted(listed.split(', ')))}" for head, are, listed in parts]
    if tool in ("kafka-configs", "kafka-consumer-groups", "kafka-get-offsets", "kafka-features"):
        lines = sorted(set(lines))
    return "\n".join(lines)


def _shortened(line: str) -> str:
    """A line without the words of an error, which are each program's own."""
    return re.sub(r"^(.*Error:|Error while executing .*? command|.* due to)\W.*", r"\1", line)


def _in_order(lines: Iterable[str]) -> list[str]:
    """The resources and their ACLs in the order of their texts: Java takes them from hash maps."""
    blocks: list[list[str]] = []
    for line in lines:
        if line[:1].isspace() and blocks:
            blocks[-1].append(line.strip())
        else:
            blocks.append([line])
    return [line for head, *rows in sorted(blocks) for line in (head, *sorted(rows))]


def outcome(tool: str, exit_code: int, out: str) -> str:
    """The text that is compared. The words of an error are each program's own."""
    text = normalised(tool, out)
    if exit_code:
        text = "\n".join(line for line in text.splitlines() if not line.startswith(("Error", "Tools$", "java.")))
    return f"{text}\nexit {exit_code}".lstrip("\n")


def expected() -> dict[str, str]:
    """The outcome of Kafka's tools for each line; of one that comes several times, with its number behind it."""
    found: dict[str, str] = {}
    for entry in EXPECTED.read_text().split("$ ")[1:]:
        line, _, text = entry.partition("\n")
        found[line] = text.rstrip("\n")
    return found


def numbered(line: str, before: Iterable[str]) -> str:
    """A name for a line that none before it has."""
    names = set(before)
    return next(name for name in (line, *(f"{line} ({count})" for count in range(2, 99))) if name not in names)


def options() -> dict[str, list[str]]:
    """The options of Kafka's tools."""
    lines = (line.split() for line in OPTIONS.read_text().splitlines())
    return {tool: names for tool, *names in lines}
