"""Commands of Kafka's Java tools, one after another on one broker, and what of their output is no difference.

The commands are in ``java/commands.txt`` and ``java/secured_commands.txt``. Not here: who runs them
(`test_java_commands`, `test_java_commands_secured`), and how (`java_tools`). Every tool that talks to a broker has a
command; those that do not are in `WITHOUT_A_BROKER`, those that another test runs in `RUN_ELSEWHERE`, each with its
reason.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

TOPIC: Final = "tools-of-java"
_LISTS: Final = Path(__file__).resolve().parents[1] / "java"
COMMANDS: Final = (_LISTS / "commands.txt").read_text().splitlines()
"""Words in capitals are files, but for SERVER; what follows ``<<<`` are lines of standard input."""
SECURED_COMMANDS: Final = (_LISTS / "secured_commands.txt").read_text().splitlines()
"""The commands for a broker with logins and an authorizer. HMAC is that of the token that was created last."""
HMAC: Final = re.compile(r"[A-Za-z0-9+/]{86}==")
WITHOUT_A_BROKER: Final[Mapping[str, str]] = {
    "kafka.Kafka": "is the broker",
    "kafka.docker.KafkaDockerWrapper": "starts the broker in its container",
    "kafka.server.KafkaConfig": "writes its documentation",
    "kafka.tools.StorageTool": "formats log directories",
    "kafka.tools.TestRaftServer": "is a server",
    "org.apache.kafka.tools.ConnectPluginPath": "looks at Connect's plugins on disk",
    "org.apache.kafka.tools.DumpLogSegments": "reads files",
    "org.apache.kafka.tools.JmxTool": "speaks JMX to a JVM",
    "org.apache.kafka.tools.OAuthCompatibilityTool": "speaks to an OAuth provider",
}
"""By class."""
RUN_ELSEWHERE: Final[Mapping[str, str]] = {
    "org.apache.kafka.tools.LogCompactionTester": "`test_java_commands.py`: it sleeps for 20 s, so only in long runs",
    "org.apache.kafka.tools.ReplicaVerificationTool": "`test_java_commands.py`: it never ends by itself",
}
NEEDS: Final[Mapping[str, str]] = {
    "kafka-verifiable-share-consumer": "SHARE_GROUP_HEARTBEAT",
    "kafka-console-share-consumer": "SHARE_GROUP_HEARTBEAT",
}
"""The API that commands need although they do not say so, by how the command begins."""
WORKER_TOOL: Final = "connect-internal-topics"
"""It takes the address from the properties of a worker."""
SERVER_FIRST: Final = {"kafka-features", "kafka-metadata-quorum", "kafka-transactions"}
"""Their options come before the name of what to do."""
MEASURED: Final = {
    "kafka-producer-perf-test",
    "kafka-consumer-perf-test",
    "kafka-e2e-latency",
    "kafka-share-consumer-perf-test",
    "transactional-message-copier",
}
"""They print times and rates: of those only the words are compared."""
SHARE_CONSUMER: Final = "kafka-verifiable-share-consumer"
"""It prints sets of offsets, in any order."""
API_VERSIONS: Final = "kafka-broker-api-versions"
READ_ONLY: Final = {"--describe", "--list", "describe", "describe-producers", "list"}


def command_of(line: str, bootstrap_servers: str, files: Path) -> tuple[Sequence[str], str]:
    """The tool with its arguments, and its standard input."""
    line, _, given = line.partition(" <<< ")
    words = [bootstrap_servers if word == "SERVER" else word for word in line.split()]
    tool, *arguments = (str(files / word) if word.isupper() and (files / word).exists() else word for word in words)
    server = ["--bootstrap-server", bootstrap_servers]
    if "SERVER" in line.split() or tool == WORKER_TOOL:
        server = []
    stdin = "".join(f"{each}\n" for each in given.split())
    return [tool, *server, *arguments] if tool in SERVER_FIRST else [tool, *arguments, *server], stdin


TRACED: Final = re.compile(
    r"\s+at |Caused by: |\t\.\.\. |Tools\$Ended|.*with args '|.*deprecated|The consumer rebalance pro"
)
_NOT_AUTHORIZED: Final = (
    "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.ClusterAuthorizationException: "
    "Cluster authorization failed."
)
REPLACED: Final = (
    (r"127\.0\.0\.1(:| +)\d+ *", "ADDRESS "),
    (r', "endpoints": \[.*?\]', ""),
    (r"(HighWatermark: +|Cluster ?I[dD]: +)\S+", r"\1SOME"),
    (r'("directoryId": )"\S+"', r"\1SOME"),
    (r"(?m)^1 +\t\S+\t\d+ +\t0 .*", "1 SOME SOME 0 NOW NOW Leader"),
    (r'("logDir":|"log_dirs":\[)"/.*?"', r"\1DIRECTORY"),
    (r'("timestamp":|"time":")\d[\d/: ]*', r"\1NOW"),
    (r"(Epoch: )\d+", r"\1N"),
    (r"(directoryId=)[\w-]{22}", r"\1SOME"),
    (r"\b[\w-]+-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "MEMBER"),
    (r"/tmp/\S+", "FILE"),
    (r"org\.\S+KafkaException: Cannot execute transactional method because we are in an error state", _NOT_AUTHORIZED),
    (r"Request Request\(.*\) (needs [A-Z_]+ permission|is not authorized)\.", "Cluster authorization failed."),
)
"""The last one is Kafka's text with objects of its memory in it. Here it is the text of the error. The one before it is
what an idempotent producer says that learns that it may not write before it has the topic's metadata; if the metadata
come first, it is the text of the error."""


MADE_UP: Final = {
    "ProducerId": "ID",
    "LastTimestamp": "NOW",
    "CurrentTransactionStartTimeMs": "NOW",
    "TransactionDurationMs": "NOW",
}
"""Columns of `kafka-transactions` that no two brokers fill alike."""


def _of_transactions(table: str) -> str:
    """Its rows in the order of their cells: Apache Kafka takes them from a hash map."""
    head, *rows = ([cell.strip() for cell in line.split("\t")] for line in table.splitlines())
    cells = ("\t".join(MADE_UP.get(name, cell) for name, cell in zip(head, row, strict=False)) for row in rows)
    return "\n".join(["\t".join(head), *sorted(cells)])


def _of_acls(text: str) -> str:
    """The resources and their ACLs in the order of their texts: Java takes them from hash maps."""
    blocks: list[list[str]] = []
    text = re.sub(r"(?s)^Option .*", "USAGE", text, flags=re.MULTILINE)
    text = re.sub(r"(?<=supports operations )\[(.*)\]", lambda found: ", ".join(sorted(found[1].split(", "))), text)
    for line in text.splitlines():
        if line[:1].isspace() and blocks:
            blocks[-1].append(line.strip())
        else:
            blocks.append([line])
    return "\n".join("\n \t".join([head, *sorted(rows)]) for head, *rows in sorted(blocks))


def _of_tokens(text: str) -> str:
    """Without the ids, HMACs and times of tokens, and in one order."""
    text = re.sub(r"(?m)(^|(?<=tokenId : ))[\w-]{22}(?=\s)", "TOKEN", HMAC.sub("HMAC", text))
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "NOW", text)
    text = re.sub(r"(?<=: )[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d .*\d{4}", "NOW", text)
    lines = re.sub(r" +", " ", text).splitlines()
    return "\n".join(
        [line for line in lines if line[:6] != "TOKEN "] + sorted(line for line in lines if line[:6] == "TOKEN ")
    )


def normalised(tool: str, text: str) -> str:
    """Without what differs from broker to broker and from run to run, and without stack traces."""
    if tool.startswith("kafka-verifiable"):  # threads of its own print what was sent, before or after this line
        lines = map(_with_sorted_fields, text.split("\n"))
        text = "\n".join(sorted(lines, key=lambda line: '"startup_complete"' not in line))
    if tool == API_VERSIONS:
        text = re.sub(r"(?m)^\t\w+\(\d+\): UNSUPPORTED,?$|,$", "", text)
    text = "\n".join(line.rstrip() for line in text.splitlines() if line.strip() and not TRACED.match(line))
    for pattern, replacement in REPLACED:
        text = re.sub(pattern, replacement, text)
    if tool == "kafka-acls":
        text = _of_acls(text)
    if tool == "kafka-delegation-tokens":
        text = _of_tokens(text)
    if tool == SHARE_CONSUMER:
        text = re.sub(r"(?<=:\[)\d+(,\d+)*(?=\])", lambda found: ",".join(sorted(found[0].split(","), key=int)), text)
    if tool == "kafka-transactions" and "\t" in text.partition("\n")[0]:
        text = _of_transactions(text)
    if tool in MEASURED:
        text = re.sub(r"\d[\d.,:/-]*", "N", text)
    return text


def _with_sorted_fields(line: str) -> str:
    """A line of JSON with its fields in alphabetical order: that of Java depends on the classes that are loaded."""
    return json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")) if line.startswith("{") else line


class Outcome(NamedTuple):
    """A command and what became of it: what it printed, and its exit code in the last line."""

    line: str
    printed: str


def transcript(text: str) -> dict[str, str]:
    """The outcome of each command; one that comes several times has its number behind it."""
    found: dict[str, str] = {}
    for entry in text.split("$ ")[1:]:
        line, _, outcome = entry.partition("\n")
        found[numbered(line, found)] = outcome.rstrip("\n")
    return found


def numbered(line: str, before: Mapping[str, str]) -> str:
    """A name for the command that none before it has."""
    count = 1
    name = line
    while name in before:
        count += 1
        name = f"{line} ({count})"
    return name


def written(outcomes: Mapping[str, str]) -> str:
    """A transcript, as `transcript` reads it."""
    return "".join(f"$ {line}\n{outcome}\n" for line, outcome in outcomes.items())
