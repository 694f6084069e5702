"""``python -m kpybroker.kafka_tools TOOL OPTIONS...``: runs a tool of Kafka by its name, with or without ``.sh``."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import click

from kpybroker.cli.kafka_tools import acls, cluster, configs, consumer, groups, offsets, producer, storage, topics
from kpybroker.cli.kafka_tools.options import Tool, ToolRefusal
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError

Words = Callable[[Sequence[str]], None]
WITH_OPTIONS: Final[dict[str, Tool]] = {
    topics.NAME: Tool(topics.options_of, topics.run),
    configs.NAME: Tool(configs.options_of, configs.run),
    acls.NAME: Tool(acls.options_of, acls.run),
    producer.NAME: Tool(producer.options_of, producer.run),
    consumer.NAME: Tool(consumer.options_of, consumer.run),
    groups.NAME: Tool(groups.options_of, groups.run),
    "kafka-get-offsets": Tool(offsets.get_offsets_options, offsets.get_offsets),
    "kafka-delete-records": Tool(offsets.delete_records_options, offsets.delete_records),
    "kafka-broker-api-versions": Tool(cluster.broker_api_versions_options, cluster.broker_api_versions),
    "kafka-cluster": Tool(cluster.cluster_options, cluster.cluster),
    "kafka-features": Tool(cluster.features_options, cluster.features),
    "kafka-metadata-quorum": Tool(cluster.metadata_quorum_options, cluster.metadata_quorum),
    "kafka-server-start": Tool(storage.server_start_options, storage.server_start),
}
TOOLS: Final[Mapping[str, Words]] = {
    **WITH_OPTIONS,
    "kafka-storage": storage.storage,
    "kafka-run-class": lambda words: run_class(words),
    "cub": lambda words: cub(words),
    "ub": lambda words: cub(words),
}
CLASSES: Final = {
    "kafka.admin.TopicCommand": topics.NAME,
    "org.apache.kafka.tools.TopicCommand": topics.NAME,
    "kafka.admin.ConfigCommand": configs.NAME,
    "kafka.admin.AclCommand": acls.NAME,
    "org.apache.kafka.tools.AclCommand": acls.NAME,
    "kafka.admin.ConsumerGroupCommand": groups.NAME,
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": groups.NAME,
    "kafka.tools.ConsoleProducer": producer.NAME,
    "org.apache.kafka.tools.ConsoleProducer": producer.NAME,
    "kafka.tools.ConsoleConsumer": consumer.NAME,
    "org.apache.kafka.tools.consumer.ConsoleConsumer": consumer.NAME,
    "kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "org.apache.kafka.tools.GetOffsetShell": "kafka-get-offsets",
    "kafka.admin.DeleteRecordsCommand": "kafka-delete-records",
    "org.apache.kafka.tools.DeleteRecordsCommand": "kafka-delete-records",
    "kafka.admin.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "org.apache.kafka.tools.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "kafka.tools.ClusterTool": "kafka-cluster",
    "org.apache.kafka.tools.ClusterTool": "kafka-cluster",
    "org.apache.kafka.tools.FeatureCommand": "kafka-features",
    "org.apache.kafka.tools.MetadataQuorumCommand": "kafka-metadata-quorum",
    "kafka.tools.StorageTool": "kafka-storage",
    "kafka.Kafka": "kafka-server-start",
}
"""The Java classes of the tools, for ``kafka-run-class``."""
CUB: Final = {
    "kafka-ready": Tool(cluster.kafka_ready_options, cluster.kafka_ready),
    "zk-ready": Tool(cluster.zookeeper_ready_options, cluster.zookeeper_ready),
}
INTERRUPTED: Final = 130


def run_class(words: Sequence[str]) -> None:
    """kafka-run-class: runs the tool of a Java class. Raises Refusal for one that is not known."""
    name = words[0] if words else ""
    if name not in CLASSES:
        raise ToolRefusal(
            f"kafka-run-class: there is no Java here to run {name or 'nothing'!r}; known are {', '.join(CLASSES)}"
        )
    TOOLS[CLASSES[name]](words[1:])


def cub(words: Sequence[str]) -> None:
    """The waiting commands of Confluent's images. Raises Refusal for others."""
    name = words[0] if words else ""
    if name not in CUB:
        raise ToolRefusal(f"cub: choose one of {', '.join(CUB)}")
    CUB[name](words[1:])


def main(name: str, words: Sequence[str]) -> int:
    """Run a tool. Return its exit code."""
    tool = os.path.basename(name).removesuffix(".sh")
    if tool not in TOOLS:
        print(f"{tool} is none of {', '.join(TOOLS)}", file=sys.stderr)
        return 1
    try:
        TOOLS[tool](words)
        sys.stdout.flush()
    except SystemExit as ended:
        return int(ended.code not in (0, None))
    except (ToolRefusal, BadProperty, KafkaError, Unreachable) as error:
        print(error, file=sys.stderr)
        return 1
    except click.ClickException as error:
        print(error.format_message(), file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "", sys.argv[2:]))
