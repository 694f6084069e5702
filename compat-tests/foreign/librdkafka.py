"""librdkafka's own regression tests, written in C and C++, which Confluent's npm package carries with its sources.

They are built as they are; each runs in a process of its own, since a failed assertion ends the process. Left out is
what needs no broker, and what its authors mark as a known issue or as needing a proxy between client and broker.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from foreign.outcomes import Outcomes
from foreign.packages import call, needed, npm_package
from oracle.jars import jvm

PACKAGE: Final = "@confluentinc/kafka-javascript@1.10.1"
ARCHIVE: Final = "confluentinc-kafka-javascript-1.10.1.tgz"
SHA256: Final = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
DECLARED: Final = re.compile(r"_TEST\((\d{4}_\w+),\s*(\w+(?:\s*\|\s*\w+)*)(.*)")
ELSEWHERE: Final = ("TEST_F_LOCAL", "TEST_F_KNOWN_ISSUE", "TEST_F_SOCKEM")
APART: Final = re.compile(r"^[1-9]|_mock")
"""Tests with needs of their own, and those on librdkafka's mock broker without the flag that says so."""
SHARES: Final = "_share_"
"""A part of the names of tests of share groups, which a suite of their own runs."""
RESULT: Final = re.compile(r"\| (\d{4}_\w+) +\| +(PASSED|FAILED|SKIPPED|RUNNING) +\|[^|\n]*\|(.*)")
FAILURE: Final = re.compile(r"### Test \"\w+\" failed at ([^#]*(?:###\s[^\[]*)?)")
COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
SCRIPTS: Final = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-configs": "org.apache.kafka.tools.ConfigCommand",
}
AT_ONCE = 3
LIMIT_S = 240.0
SHARE_LIMIT_S = 900.0
"""The longest time of a test of share groups, which wait for locks of 15 s and more."""


@dataclass(frozen=True, slots=True)
class Librdkafka:
    """``scenario`` is librdkafka's word for what a group of tests expects of the broker's configuration."""

    name: str
    scenario: str
    broker: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    secured: bool = False
    protocol: str = ""
    """The protocol of consumer groups; librdkafka's default if it is empty."""
    shares: bool = False
    """Whether it runs the tests of share groups, whole, in place of all others in their quick form."""

    @property
    def _source(self) -> Path:
        return npm_package(PACKAGE, ARCHIVE, SHA256) / "deps" / "librdkafka"

    def prepare(self) -> None:
        source = self._source
        if not (source / "tests" / "test-runner").exists():
            make, processors = needed("make"), str(os.cpu_count() or 1)
            needed("g++")
            call(["./configure", "--disable-sasl", "--disable-curl"], cwd=source)
            call([make, f"-j{processors}", "libs"], cwd=source)
            call([make, f"-j{processors}", "-C", "tests", "build"], cwd=source)

    def run(self, bootstrap_servers: str, directory: Path, only: Collection[str] | None = None) -> Outcomes:
        tests = self._source / "tests"
        servers = os.environ["FOREIGN_SASL_SSL"] if self.secured else bootstrap_servers
        configs = {"metadata.broker.list": servers, "test.topic.random": "true", **(login() if self.secured else {})}
        (directory / "test.conf").write_text("".join(f"{key}={value}\n" for key, value in configs.items()))
        chosen = (
            sorted(only) if only else broker_tests((tests / "test.c").read_text(), self.scenario, shares=self.shares)
        )
        write_scripts(directory / "kafka" / "bin")
        outcomes = Outcomes()
        by_number = {number: list(names) for number, names in groupby(chosen, lambda test: test[:4])}
        with ThreadPoolExecutor(AT_ONCE if len(by_number) > AT_ONCE else 1) as pool:
            for number, log in pool.map(
                lambda number: (number, self._run_number(number, tests, directory, bootstrap_servers)), by_number
            ):
                for test in by_number[number]:
                    outcomes.update(read_summary(test, log))
        return outcomes

    def _run_number(self, number: str, tests: Path, directory: Path, bootstrap_servers: str) -> str:
        """Run what has this number, which is all that the runner tells apart; what it wrote."""
        log = directory / f"{number}.log"
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": os.pathsep.join(str(tests.parent / part) for part in ("src", "src-cpp")),
            "RDKAFKA_TEST_CONF": str(directory / "test.conf"),
            "TEST_KAFKA_VERSION": "4.3.1",
            "TESTS": number,
            "KAFKA_PATH": str(directory / "kafka"),
            "BROKERS": bootstrap_servers,
            **({"TEST_CONSUMER_GROUP_PROTOCOL": self.protocol} if self.protocol else {}),
        }
        options = ("-L", "-p1", *(() if self.shares else ("-Q",)), "-s", self.scenario)
        limit_s = SHARE_LIMIT_S if self.shares else LIMIT_S
        with open(log, "wb") as output:
            try:
                subprocess.run(
                    [str(tests / "test-runner"), *options],
                    cwd=tests,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                output.write(f"\nended after {limit_s:g} s\n".encode())
        return COLOUR.sub("", log.read_text(errors="replace"))


def login() -> dict[str, str]:
    """The configs of clients that log in and encrypt."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": os.environ["FOREIGN_USER"],
        "sasl.password": os.environ["FOREIGN_PASSWORD"],
        "ssl.ca.location": os.environ["FOREIGN_CA"],
    }


def write_scripts(directory: Path) -> None:
    """Kafka's shell scripts that a few tests call, around the classes in its jars."""
    directory.mkdir(parents=True)
    for name, main_class in SCRIPTS.items():
        script = directory / f"{name}.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(jvm(heap="128m"))} {main_class} "$@"\n')
        script.chmod(0o755)


def broker_tests(declarations: str, scenario: str, *, shares: bool = False) -> list[str]:
    """The tests in the table of test.c that talk to a real broker and belong to the scenario: those of share groups, or
    all others."""
    chosen = []
    for declared in declarations.split("struct test tests[]", 1)[-1].split("_TEST(")[1:]:
        found = DECLARED.match("_TEST(" + " ".join(declared.partition("_TEST(")[0].split()))
        if found is None or any(flag in found[2] for flag in ELSEWHERE) or APART.search(found[1]):
            continue
        if (SHARES in found[1]) != shares:
            continue
        wants = re.search(r'\.scenario = "(\w+)"', found[3])
        if (wants[1] if wants else "default") == scenario:
            chosen.append(found[1])
    return chosen


def read_summary(test: str, log: str) -> Outcomes:
    """A test's row of the closing table; without one it ended otherwise, and has failed."""
    outcomes = Outcomes()
    rows = {name: (result, text.strip()) for name, result, text in RESULT.findall(log)}
    result, reason = rows.get(test, ("FAILED", (log.strip().splitlines() or ["it wrote nothing"])[-1]))
    where = FAILURE.search(log)
    words: Final = {"PASSED": "passed", "SKIPPED": "skipped"}
    outcomes.add(test, words.get(result, "failed"), where[1] if where else reason)  # type: ignore[arg-type]
    return outcomes


BROKER: Final = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "500"}
"""Some tests count on members that start together being in a group's first round together."""
LIBRDKAFKA: Final = Librdkafka("librdkafka", "default", BROKER)
LIBRDKAFKA_NO_AUTO_CREATE: Final = Librdkafka(
    "librdkafka-noautocreate", "noautocreate", {**BROKER, "auto.create.topics.enable": "false"}
)
LIBRDKAFKA_CLUSTER: Final = replace(LIBRDKAFKA, name="librdkafka-cluster", nodes=3)
LIBRDKAFKA_CLUSTER_NO_AUTO_CREATE: Final = replace(
    LIBRDKAFKA_NO_AUTO_CREATE, name="librdkafka-cluster-noautocreate", nodes=3
)
"""Some tests create topics with three replicas."""
SESSION_MS: Final = "10000"
LIBRDKAFKA_SECURED: Final = replace(
    LIBRDKAFKA, name="librdkafka-secured", broker={**BROKER, "connections.max.reauth.ms": SESSION_MS}, secured=True
)
"""With SASL_SSL and short sessions: all tests log in again meanwhile, and those of logins and ACLs run too."""
LIBRDKAFKA_CONSUMER: Final = replace(LIBRDKAFKA, name="librdkafka-consumer", protocol="consumer")
"""All its groups speak the consumer protocol (KIP-848)."""
LIBRDKAFKA_SHARE: Final = replace(LIBRDKAFKA, name="librdkafka-share", shares=True)
"""Its tests of share groups (KIP-932)."""
