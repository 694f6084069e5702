"""Tools about the cluster: kafka-broker-api-versions, kafka-cluster, kafka-features, kafka-metadata-quorum, and the
``cub kafka-ready`` of Confluent's images, which waits for brokers."""

import json
import socket
import time
from collections.abc import Sequence
from typing import Final

from kpybroker.cli.kafka_tools.options import Found, ToolOptions, ToolRefusal, cluster_of
from kpybroker.client import cluster_requests
from kpybroker.client.client import Client
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lag import kafkas_lag
from kpybroker.machines.metadata import metadata_version
from kpywire import api
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.describe_quorum import Node, ReplicaState
from kpywire.uuid import to_string

PAUSE_S: Final = 0.2


def broker_api_versions_options() -> ToolOptions:
    """The options of kafka-broker-api-versions."""
    options = ToolOptions("kafka-broker-api-versions", "This tool helps to retrieve broker version information.")
    options.of_cluster()
    return options


def broker_api_versions(_options: ToolOptions, found: Found) -> None:
    """kafka-broker-api-versions: prints the APIs of each broker with their versions. Raises KafkaError, Unreachable."""
    with cluster_of(found) as client:
        for node in client.nodes():
            request = ApiVersionsRequest(client_software_name="kpybroker", client_software_version="0")
            answer = client.call_node(node.node_id, request)
            rack = "null" if node.rack is None else node.rack
            print(f"{node.host}:{node.port} (id: {node.node_id} rack: {rack} isFenced: false) -> (")
            lines = []
            for each in sorted(answer.api_keys, key=lambda one: one.api_key):
                known = api.API_KEYS.get(each.api_key)
                low, high = each.min_version, each.max_version
                versions = f"{low}" if low == high else f"{low} to {high}"
                usable = "" if known is None else f" [usable: {min(high, known.max_version)}]"
                name = "UNKNOWN" if known is None else known.name
                lines.append(f"\t{name}({each.api_key}): {versions}{usable}")
            print(",\n".join(lines))
            print(")")


def cluster_options() -> ToolOptions:
    """The options of kafka-cluster."""
    options = ToolOptions("kafka-cluster", "The Kafka cluster tool.")
    options.add_argument("action", choices=("cluster-id", "list-endpoints"))
    options.of_cluster()
    options.add_argument("--config", dest="command_config")
    options.flags("include-fenced-brokers")
    return options


def cluster(options: ToolOptions, found: Found) -> None:
    """kafka-cluster: prints the id of the cluster, or the endpoints of its brokers. Raises KafkaError, Unreachable."""
    action = found.action
    if action == "cluster-id" and found.include_fenced_brokers:
        options.error("option include-fenced-brokers cannot be used with cluster-id")
    with cluster_of(found) as client:
        described = cluster_requests.describe(client)
    if action == "cluster-id":
        print(f"Cluster ID: {described.cluster_id}")
        return
    brokers = sorted(described.brokers, key=lambda each: each.broker_id)
    shown = [each for each in brokers if found.include_fenced_brokers or not each.is_fenced]
    width = max([len("HOST"), *(len(each.host) for each in shown)])
    print(f"{'ID':<10} {'HOST':<{width}} {'PORT':<10} {'RACK':<10} {'STATE':<10} {'ENDPOINT_TYPE':<15}")
    for each in shown:
        rack = "null" if each.rack is None else each.rack
        state = "fenced" if each.is_fenced else "unfenced"
        print(f"{each.broker_id:<10} {each.host:<{width}} {each.port:<10} {rack:<10} {state:<10} {'broker':<15}")


def features_options() -> ToolOptions:
    """The options of kafka-features."""
    options = ToolOptions("kafka-features", "This tool describes feature flags in Kafka.")
    options.add_argument("action", choices=("describe",))
    options.of_cluster()
    return options


def features(_options: ToolOptions, found: Found) -> None:
    """kafka-features describe: prints the levels of the features. Raises KafkaError, Unreachable."""
    with cluster_of(found) as client:
        request = ApiVersionsRequest(client_software_name="kpybroker", client_software_version="0")
        epoch = client.call(request).finalized_features_epoch
        for each in cluster_requests.features(client):
            levels = [_level(each.name, one) for one in (each.first_supported, each.last_supported, each.finalized)]
            names = ("SupportedMinVersion", "SupportedMaxVersion", "FinalizedVersionLevel")
            shown = "".join(f"{name}: {level:<17}" for name, level in zip(names, levels, strict=True))
            print(f"Feature: {each.name:<42}{shown}Epoch: {epoch}")


def _level(name: str, level: int) -> str:
    return metadata_version.name_of(level) if name == metadata_version.FEATURE_NAME and level else str(level)


def metadata_quorum_options() -> ToolOptions:
    """The options of kafka-metadata-quorum."""
    options = ToolOptions("kafka-metadata-quorum", "This tool describes kraft metadata quorum status.")
    options.add_argument("action", choices=("describe",))
    options.of_cluster()
    options.flags("status", "replication", "human-readable")
    return options


def metadata_quorum(_options: ToolOptions, found: Found) -> None:
    """kafka-metadata-quorum describe: prints the quorum of controllers. Raises KafkaError, Unreachable, Refusal."""
    if found.status == found.replication:
        raise ToolRefusal("One of --status or --replication must be specified with describe sub-command")
    with cluster_of(found) as client:
        _print_quorum(client, found)


def _print_quorum(client: Client, found: Found) -> None:
    answer = cluster_requests.describe_quorum(client)
    quorum = answer.topics[0].partitions[0]
    leader = next(each for each in quorum.current_voters if each.replica_id == quorum.leader_id)
    end, now_ms = leader.log_end_offset, leader.last_caught_up_timestamp
    if found.status:
        followers = [each for each in quorum.current_voters if each is not leader]
        lags = [kafkas_lag(end, each.log_end_offset) for each in followers]
        times = [now_ms - each.last_caught_up_timestamp for each in followers]
        lines = {
            "ClusterId": cluster_requests.describe(client).cluster_id,
            "LeaderId": quorum.leader_id,
            "LeaderEpoch": quorum.leader_epoch,
            "HighWatermark": quorum.high_watermark,
            "MaxFollowerLag": max(lags, default=0),
            "MaxFollowerLagTimeMs": max(times, default=0),
            "CurrentVoters": _nodes(quorum.current_voters, answer.nodes),
            "CurrentObservers": _nodes(quorum.observers),
        }
        for name, value in lines.items():
            print(f"{name + ':':<24}{value}")
        return
    rows: list[Sequence[object]] = [
        ("NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status")
    ]
    for status, replicas in (("Follower", quorum.current_voters), ("Observer", quorum.observers)):
        for each in sorted(replicas, key=lambda one: one is not leader):
            fetched: list[object] = [each.last_fetch_timestamp, each.last_caught_up_timestamp]
            if found.human_readable:
                local_ms = time.time_ns() // 1_000_000
                fetched = [
                    f"{local_ms - one} ms ago" for one in (each.last_fetch_timestamp, each.last_caught_up_timestamp)
                ]
            directory, position = to_string(each.replica_directory_id), each.log_end_offset
            role = "Leader" if each is leader else status
            rows.append((each.replica_id, directory, position, kafkas_lag(end, position), *fetched, role))
    widths = [max(len(str(row[at])) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        print("\t".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths, strict=True)) + "\t")


def _nodes(replicas: Sequence[ReplicaState], nodes: Sequence[Node] = ()) -> str:
    listeners = {each.node_id: each.listeners for each in nodes}
    shown = []
    for each in replicas:
        found: dict[str, object] = {"id": each.replica_id, "directoryId": to_string(each.replica_directory_id)}
        if each.replica_id in listeners:
            found["endpoints"] = [f"{one.name}://{one.host}:{one.port}" for one in listeners[each.replica_id]]
        shown.append(found)
    return json.dumps(shown)


def kafka_ready_options() -> ToolOptions:
    """The options of cub kafka-ready."""
    options = ToolOptions("cub kafka-ready", "Check if Kafka is ready.")
    options.add_argument("expected_brokers", type=int)
    options.add_argument("timeout_s", type=int)
    options.add_argument("-b", "--bootstrap-servers", "--bootstrap_broker_list", dest="bootstrap_server", required=True)
    options.add_argument("-c", "--config", dest="command_config")
    options.add_argument("-s", "--security-protocol", "--security_protocol", default="PLAINTEXT")
    return options


def kafka_ready(options: ToolOptions, found: Found) -> None:
    """cub kafka-ready BROKERS SECONDS: waits until there are this many brokers. Raises Refusal if there are fewer."""
    if found.security_protocol != "PLAINTEXT" and found.command_config is None:
        options.error("--config is required for all protocols except PLAINTEXT")
    deadline_s = time.monotonic() + found.timeout_s
    why = "no broker answered"
    while True:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise ToolRefusal(f"not ready after {found.timeout_s} s: {why}")
        try:
            with cluster_of(found, max(1, int(left_s * 1000))) as client:
                count = len(client.nodes())
        except (KafkaError, Unreachable) as error:
            why = str(error)
        else:
            if count >= found.expected_brokers:
                return
            why = f"{count} of {found.expected_brokers} brokers are there"
        time.sleep(min(PAUSE_S, max(0.0, deadline_s - time.monotonic())))


def zookeeper_ready_options() -> ToolOptions:
    """The options of cub zk-ready."""
    options = ToolOptions("cub zk-ready", "Check if ZK is ready.")
    options.add_argument("servers")
    options.add_argument("timeout_s", type=int)
    return options


def zookeeper_ready(_options: ToolOptions, found: Found) -> None:
    """cub zk-ready SERVERS SECONDS: waits until a ZooKeeper takes connections. Raises Refusal if none does."""
    addresses = [_address(each) for each in found.servers.partition("/")[0].split(",")]
    deadline_s = time.monotonic() + found.timeout_s
    while time.monotonic() < deadline_s:
        for address in addresses:
            try:
                socket.create_connection(address, max(0.1, deadline_s - time.monotonic())).close()
            except OSError:
                continue
            return
        time.sleep(PAUSE_S)
    raise ToolRefusal(f"not ready after {found.timeout_s} s: {found.servers} takes no connection")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdecimal():
        raise ToolRefusal(f"{text} is not HOST:PORT")
    return host.strip("[]"), int(port)
