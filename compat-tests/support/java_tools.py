"""Kafka's Java tools, many runs of them in one JVM.

A tool sees its own arguments, standard input, output and exit code, as if started by its script; it shares the JVM
with those that ran before, which no tool minds.
"""

import json
import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from oracle.jars import compile_java, jvm
from oracle.process import die_with_parent

SOURCES = Path(__file__).resolve().parents[1] / "java"

TOOLS: Final[Mapping[str, str]] = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
    "connect-internal-topics": "org.apache.kafka.tools.ConnectInternalTopics",
    "client-compatibility-test": "org.apache.kafka.tools.ClientCompatibilityTest",
    "log-compaction-tester": "org.apache.kafka.tools.LogCompactionTester",
    "transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "admin-walk": "AdminWalk",
    "tools-list": "ToolsList",
    "group-of-consumers": "GroupOfConsumers",
    "transactional-producer": "TransactionalProducer",
}


class Finished(NamedTuple):
    """The output of a tool, and its exit code."""

    exit_code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class JavaTools:
    """The JVM that runs the tools, as a context manager; its log goes to ``log``."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        names = ("Tools", "TransactionalProducer", "AdminWalk", "GroupOfConsumers", "ToolsList")
        classes = [compile_java(SOURCES / f"{name}.java") for name in names]
        command = [*jvm(*classes, heap="192m"), "Tools"]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, preexec_fn=die_with_parent
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def run(self, tool: str, *arguments: str, stdin: str = "", timeout_s: float = 60) -> Finished:
        """Run a tool to its end; one that hangs or ends the JVM fails the test, and the next gets a new JVM."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the JVM of the tools is not running")
        command = {"class": TOOLS[tool], "arguments": arguments, "stdin": stdin}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        try:
            answer = json.loads(_line(self._process.stdout.fileno(), time.monotonic() + timeout_s))
        except (TimeoutError, EOFError) as error:
            self.__exit__(None, None, None)
            self.__enter__()
            raise AssertionError(f"{tool} {' '.join(arguments)}: {error}\n{self._last_log()}") from error
        return Finished(answer["exit"], answer["out"], answer["err"])

    def _last_log(self) -> str:
        return self.log.read_text(errors="replace")[-3_000:]


def _line(descriptor: int, deadline: float) -> bytes:
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError("did not end in time")
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise EOFError("ended the JVM")
            received += part
    return received
