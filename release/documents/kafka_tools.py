"""The table of Kafka's command line tools in docs/cli.md: each script of its ``bin/``, and what does the same here.

A test holds it against the scripts of Kafka 4.4, and each command against the command line. An entry without a command
says why there is none.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class KafkaTask(NamedTuple):
    """A task of one of Kafka's tools, by its options or its subcommand, and the words that do it here."""

    task: str
    ours: str
    """A command, several with `, ` between them, or without ``kpybroker`` in front the reason why there is none."""


CONNECT: Final = (KafkaTask("", "Kafka Connect is a program of its own; it runs with kpybroker as its cluster"),)
MEASURES: Final = (KafkaTask("", "it measures Java's clients; `python -m benchmarks` measures brokers"),)
TESTS: Final = (KafkaTask("", "it is for Kafka's own system tests"),)
TOOLS: Final[Mapping[str, tuple[KafkaTask, ...]]] = {
    "connect-distributed": CONNECT,
    "connect-internal-topics": CONNECT,
    "connect-mirror-maker": CONNECT,
    "connect-plugin-path": CONNECT,
    "connect-standalone": CONNECT,
    "kafka-acls": (
        KafkaTask("--list", "kpybroker acls list"),
        KafkaTask("--add", "kpybroker acls add"),
        KafkaTask("--remove", "kpybroker acls remove"),
    ),
    "kafka-broker-api-versions": (KafkaTask("", "kpybroker cluster api-versions"),),
    "kafka-client-metrics": (
        KafkaTask("--list", "kpybroker configs list client-metrics"),
        KafkaTask("--describe", "kpybroker configs describe --client-metrics NAME"),
        KafkaTask("--alter", "kpybroker configs alter --client-metrics NAME --set KEY=VALUE"),
        KafkaTask("--delete", "kpybroker configs alter --client-metrics NAME --delete KEY"),
    ),
    "kafka-cluster": (
        KafkaTask("cluster-id", "kpybroker cluster id"),
        KafkaTask("list-endpoints", "kpybroker cluster describe, kpybroker cluster controllers"),
        KafkaTask("unregister", "kpybroker cluster unregister ID"),
        KafkaTask("unregister-controller", "kpybroker cluster unregister ID --controller"),
    ),
    "kafka-configs": (
        KafkaTask("--describe", "kpybroker configs describe"),
        KafkaTask("--alter", "kpybroker configs alter"),
        KafkaTask("--entity-type broker-loggers", "kpybroker configs alter --broker-logger ID --set LOGGER=DEBUG"),
        KafkaTask(
            "--entity-type users, with SCRAM", "kpybroker users list, kpybroker users set, kpybroker users remove"
        ),
        KafkaTask(
            "--entity-type users, clients, ips", "kpybroker quotas list, kpybroker quotas set, kpybroker quotas remove"
        ),
    ),
    "kafka-console-consumer": (KafkaTask("", "kpybroker consume TOPIC"),),
    "kafka-console-producer": (KafkaTask("", "kpybroker produce TOPIC"),),
    "kafka-console-share-consumer": (KafkaTask("", "kpybroker share consume GROUP TOPIC"),),
    "kafka-consumer-groups": (
        KafkaTask("--list", "kpybroker groups list"),
        KafkaTask("--describe", "kpybroker groups describe GROUP"),
        KafkaTask("--delete", "kpybroker groups delete GROUP"),
        KafkaTask("--delete-offsets", "kpybroker groups delete-offsets GROUP --topic TOPIC"),
        KafkaTask("--reset-offsets", "kpybroker groups reset-offsets GROUP"),
    ),
    "kafka-consumer-perf-test": MEASURES,
    "kafka-delegation-tokens": (
        KafkaTask("--create", "kpybroker tokens create"),
        KafkaTask("--describe", "kpybroker tokens list"),
        KafkaTask("--renew", "kpybroker tokens renew TOKEN"),
        KafkaTask("--expire", "kpybroker tokens expire TOKEN"),
    ),
    "kafka-delete-records": (KafkaTask("", "kpybroker offsets delete-records TOPIC"),),
    "kafka-dump-log": (KafkaTask("", "kpybroker dump-log FILE"),),
    "kafka-e2e-latency": MEASURES,
    "kafka-features": (
        KafkaTask("describe", "kpybroker cluster features"),
        KafkaTask("upgrade", "kpybroker cluster upgrade"),
        KafkaTask("downgrade, disable", "kpybroker cluster downgrade"),
        KafkaTask("version-mapping", "kpybroker cluster features --release-version VERSION"),
        KafkaTask("feature-dependencies", "a refusal of `cluster upgrade --dry-run` names the feature that is missing"),
    ),
    "kafka-get-offsets": (KafkaTask("", "kpybroker offsets get TOPIC"),),
    "kafka-groups": (KafkaTask("--list", "kpybroker groups list"),),
    "kafka-jmx": (KafkaTask("", "there is no JVM; the numbers are in [/metrics](metrics.md)"),),
    "kafka-leader-election": (
        KafkaTask("--election-type preferred", "kpybroker cluster elect TOPIC"),
        KafkaTask("--election-type unclean", "kpybroker cluster elect TOPIC --election-type unclean"),
        KafkaTask("--all-topic-partitions", "kpybroker cluster elect --all"),
    ),
    "kafka-log-dirs": (KafkaTask("--describe", "kpybroker cluster log-dirs"),),
    "kafka-metadata-quorum": (
        KafkaTask("describe", "kpybroker cluster quorum, kpybroker cluster voters list"),
        KafkaTask("add-controller", "kpybroker cluster voters add PROPERTIES"),
        KafkaTask("remove-controller", "kpybroker cluster voters remove ID"),
    ),
    "kafka-metadata-shell": (KafkaTask("", "kpybroker metadata"),),
    "kafka-producer-perf-test": MEASURES,
    "kafka-reassign-partitions": (
        KafkaTask("--generate, --execute, --verify", "kpybroker topics reassign TOPIC --broker-list 1,2,3"),
        KafkaTask("--execute with a file", "kpybroker topics reassign --reassignment-json-file FILE"),
        KafkaTask("--execute with log directories", "kpybroker replicas move TOPIC --broker-id ID --to DIR"),
        KafkaTask("--list", "kpybroker topics reassignments"),
        KafkaTask("--cancel", "kpybroker topics reassignments --cancel"),
        KafkaTask("--throttle", "kpybroker configs alter --broker ID --set leader.replication.throttled.rate=BYTES"),
    ),
    "kafka-replica-verification": (KafkaTask("", "kpybroker replicas verify TOPIC"),),
    "kafka-run-class": (
        KafkaTask("", "there are no classes of Java; [the image](image.md#tools) knows those of everyday tools"),
    ),
    "kafka-server-start": (KafkaTask("", "kpybroker start PROPERTIES"),),
    "kafka-server-stop": (KafkaTask("", "SIGTERM, or Ctrl-C where it was started"),),
    "kafka-share-consumer-perf-test": MEASURES,
    "kafka-share-groups": (
        KafkaTask("--list", "kpybroker groups list --type share"),
        KafkaTask("--describe", "kpybroker groups describe GROUP"),
        KafkaTask("--delete", "kpybroker groups delete GROUP"),
        KafkaTask("--delete-offsets", "kpybroker groups delete-offsets GROUP --topic TOPIC"),
        KafkaTask("--reset-offsets", "kpybroker groups reset-offsets GROUP"),
    ),
    "kafka-storage": (
        KafkaTask("format", "kpybroker format"),
        KafkaTask("info", "kpybroker check DIR"),
        KafkaTask("random-uuid", "kpybroker format random-uuid"),
        KafkaTask("version-mapping", "kpybroker cluster features --release-version VERSION"),
        KafkaTask("feature-dependencies", "`kpybroker format` names the feature that is missing"),
    ),
    "kafka-streams-application-reset": (
        KafkaTask(
            "", "kpybroker groups reset-offsets APPLICATION --to-earliest, kpybroker topics delete INTERNAL_TOPIC"
        ),
    ),
    "kafka-streams-groups": (
        KafkaTask("--list", "kpybroker groups list --type streams"),
        KafkaTask("--describe", "kpybroker groups describe GROUP"),
        KafkaTask("--delete", "kpybroker groups delete GROUP"),
        KafkaTask("--delete-offsets", "kpybroker groups delete-offsets GROUP --topic TOPIC"),
        KafkaTask("--reset-offsets", "kpybroker groups reset-offsets GROUP"),
    ),
    "kafka-topics": (
        KafkaTask("--create", "kpybroker topics create TOPIC"),
        KafkaTask("--list", "kpybroker topics list"),
        KafkaTask("--describe", "kpybroker topics describe TOPIC"),
        KafkaTask("--alter", "kpybroker topics alter TOPIC"),
        KafkaTask("--delete", "kpybroker topics delete TOPIC"),
    ),
    "kafka-transactions": (
        KafkaTask("list", "kpybroker transactions list"),
        KafkaTask("describe", "kpybroker transactions describe ID"),
        KafkaTask("describe-producers", "kpybroker producers TOPIC:0"),
        KafkaTask("abort", "kpybroker transactions abort --topic TOPIC --partition 0 --start-offset OFFSET"),
        KafkaTask("forceTerminateTransaction", "kpybroker transactions abort ID"),
        KafkaTask("find-hanging", "kpybroker transactions find-hanging"),
    ),
    "kafka-verifiable-consumer": TESTS,
    "kafka-verifiable-producer": TESTS,
    "kafka-verifiable-share-consumer": TESTS,
    "trogdor": TESTS,
}
"""By script, without ``.sh``."""
PROGRAM: Final = "kpybroker "


def commands_in(task: KafkaTask) -> list[str]:
    """The commands of an entry; none where it has a reason."""
    return task.ours.split(", ") if task.ours.startswith(PROGRAM) else []


def table() -> str:
    """The table as Markdown."""
    rows = []
    for tool, tasks in TOOLS.items():
        for task in tasks:
            commands = commands_in(task)
            ours = ", ".join(f"`{each}`" for each in commands) or f"no command: {task.ours}"
            name = f"{tool}.sh {task.task}".strip()
            rows.append(f"| `{name}` | {ours} |\n")
    return f"| Apache Kafka 4.4 | here |\n|---|---|\n{''.join(rows)}"
