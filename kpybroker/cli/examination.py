"""Gathering the facts for ``kpybroker doctor``: asks brokers, connects to what they advertise, reads their metrics.

Nothing is changed in the cluster, but by `clock_by_record`, which the user has to ask for. What cannot be found out is
a finding of its own, so that silence never looks like health.
"""

import socket
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kpybroker.cli import cluster_requests, config_requests, diagnoses, group_requests, scrape, topic_requests
from kpybroker.cli.client import Client, Spot
from kpybroker.cli.config_requests import Kind, Resource
from kpybroker.cli.connection import Connection, Unreachable
from kpybroker.cli.diagnoses import PROBLEM, UNKNOWN, Address, Finding, PartitionHealth
from kpybroker.cli.reader import Reader
from kpybroker.cli.sender import Sender
from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.record import Record

HTTP_PORTS = range(9404, 9414)
"""Where a kpybroker serves HTTP if nothing else is configured: the first free one."""
HTTP_CONFIG = "kpybroker.http.listener"
CONNECT_TIMEOUT_S = 3.0
LOOK_TIMEOUT_S = 0.5
"""For each of the ports that nobody named."""
PROBE_TOPIC = "kpybroker-doctor"
STATIC = 4
DYNAMIC = (2, 3)
FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
EVERYWHERE = ("", "0.0.0.0", "::", "[::]")
BROKER_INFO = "kafka_broker_info"
CONNECTIONS = "kafka_server_socket_server_metrics_connection_count"
FULL_LISTENERS = "kpybroker_listeners_full"
NEWCOMERS = "kpybroker_clients_without_return_seconds"


class Broker(NamedTuple):
    """A broker with what its metrics page says, if it could be read."""

    node_id: int
    host: str
    port: int
    page: scrape.Page | None
    is_ours: bool


def advertised(client: Client) -> Iterator[Finding]:
    """Resolve and connect to every advertised address."""
    cluster_id = cluster_requests.describe(client).cluster_id
    found = [_address(node.node_id, node.host, node.port) for node in client.nodes()]
    if len(found) == 1 and found[0].problem:
        # Whom we are connected to can only be this one, so all else can still be looked at.
        client.detour(found[0].broker, client.servers[0])
    bootstrap = ", ".join(f"{host}:{port}" for host, port in client.servers)
    yield from diagnoses.addresses(found, cluster_id, bootstrap)


def _address(node_id: int, host: str, port: int) -> Address:
    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Address(node_id, host, port, f"the name {host} is not known here ({error.strerror})", None)
    try:
        connection = Connection(host, port, CONNECT_TIMEOUT_S)
    except Unreachable as error:
        return Address(node_id, host, port, str(error), None)
    try:
        answer = connection.call(DescribeClusterRequest(include_cluster_authorized_operations=False))
        return Address(node_id, host, port, "", answer.cluster_id)
    except (KafkaError, Unreachable):
        return Address(node_id, host, port, "", None)
    finally:
        connection.close()


def brokers(client: Client, http: str | None) -> list[Broker]:
    """The brokers that live, with their metrics pages where they have one. ``http``: where to read it instead."""
    found = []
    for node in client.nodes():
        try:
            configured = _config_values(client, node.node_id).get(HTTP_CONFIG)
        except (KafkaError, Unreachable):
            configured = None
        page = _page(node.host, http or configured) or _found_page(node.host, node.port)
        ours = configured is not None or (page is not None and any(_is_ours(each) for each in page.samples))
        found.append(Broker(node.node_id, node.host, node.port, page, ours))
    return found


def unread(client: Client, http: str | None) -> Iterator[Finding]:
    """Whether the page that the user named can be read at all: others may still be found."""
    if http is None:
        return
    if not any(_page(node.host, http) for node in client.nodes()):
        yield Finding("metrics page", UNKNOWN, f"nothing like metrics answers at {http}", "Name another with --http.")


def connections(page: scrape.Page) -> Iterator[Finding]:
    """Whether there is room for more, as a page says it; nothing if it does not."""
    full = page.value(FULL_LISTENERS)
    if full is not None:
        count = sum(each.value for each in page.samples if each.name == CONNECTIONS)
        yield from diagnoses.connections(full, count)


def full(servers: Sequence[tuple[str, int]], http: str | None) -> Iterator[Finding]:
    """Why brokers that answer nobody may do so: what their pages say of connections, if all of them are used up."""
    for host, port in servers:
        page = _page(host, http) or _found_page(host, port)
        if page is not None:
            yield from (each for each in connections(page) if each.level == PROBLEM)


def _page(broker_host: str, address: str | None) -> scrape.Page | None:
    """The page of an address that somebody named."""
    host, _, port = (address or "").rpartition(":")
    if not port.isdecimal():
        return None
    host = broker_host if host in EVERYWHERE else host.removeprefix("[").removesuffix("]")
    return scrape.fetch(host, int(port), CONNECT_TIMEOUT_S)


def _found_page(host: str, port: int) -> scrape.Page | None:
    """The page on one of the usual ports that says it is this broker's; another's would tell of another cluster."""
    for number in HTTP_PORTS:
        page = scrape.fetch(host, number, LOOK_TIMEOUT_S)
        if page is None:
            continue
        if any(each.name == BROKER_INFO and each.labels.get("address") == f"{host}:{port}" for each in page.samples):
            return page
    return None


def _is_ours(sample: scrape.Sample) -> bool:
    return sample.name.startswith("kpybroker_")


def _config_values(client: Client, node_id: int) -> dict[str, str | None]:
    """What was set for a broker, not what it has by default."""
    found = config_requests.describe(client, Resource(Kind.BROKER, str(node_id)))
    return {each.name: each.value for each in found if each.config_source in (STATIC, *DYNAMIC)}


def newcomers(found: list[Broker]) -> Iterator[Finding]:
    """Clients that never came back, as the brokers' metrics count them."""
    seen = [
        (
            each.labels.get("client_host", "?"),
            each.labels.get("client_id", ""),
            each.labels.get("listener", ""),
            each.value,
        )
        for broker in found
        if broker.page is not None
        for each in broker.page.samples
        if each.name == NEWCOMERS
    ]
    if any(broker.page is not None and broker.is_ours for broker in found):
        yield from diagnoses.newcomers(seen, ", ".join(f"{each.host}:{each.port}" for each in found))
    else:
        yield Finding(
            "clients that never come back",
            UNKNOWN,
            "only kpybroker counts them, and no metrics page of one could be read",
            "Name it with --http HOST:PORT, or start the broker with --http.",
        )


def process(found: list[Broker]) -> Iterator[Finding]:
    """What the brokers' processes say of themselves: files and clock."""
    for broker in found:
        if broker.page is None:
            continue
        opened, limit = broker.page.value("process_open_fds"), broker.page.value("process_max_fds")
        if opened is not None and limit is not None:
            yield from diagnoses.files(opened, limit)
        yield from connections(broker.page)
        if broker.page.date_s is not None:
            # The date has whole seconds, and the page was read within the last few.
            yield from diagnoses.clock((broker.page.date_s - time.time()) * 1000, 1_000 + CONNECT_TIMEOUT_S * 1000)
    if all(broker.page is None for broker in found):
        yield Finding("open files", UNKNOWN, "no metrics page could be read", "Name it with --http HOST:PORT.")
        yield Finding("clock", UNKNOWN, "no metrics page could be read", "Say --write to find out with a record.")


def clock_by_record(client: Client) -> Iterator[Finding]:
    """Write one record to a topic made for it, whose timestamp is the broker's, and read it back."""
    name = f"{PROBE_TOPIC}-{time.time_ns()}"
    topic_requests.create(client, name, 1, 1, {"message.timestamp.type": "LogAppendTime"})
    try:
        before_ms = time.time() * 1000
        Sender(client, name).send([Record(value=b"what time is it?")])
        after_ms = time.time() * 1000
        (found, *_) = Reader(client, {Spot(name, 0): 0}).poll()
        middle_ms = (before_ms + after_ms) / 2
        yield from diagnoses.clock(found.record.timestamp - middle_ms, (after_ms - before_ms) / 2 + 1)
    finally:
        topic_requests.delete(client, name)


def storage(client: Client) -> Iterator[Finding]:
    """Log directories and their disks."""
    for node in client.nodes():
        try:
            found = cluster_requests.log_directories(client, node.node_id)
        except (KafkaError, Unreachable) as error:
            yield Finding("log directories", UNKNOWN, f"broker {node.node_id} does not say: {error}")
        else:
            names = {each.error_code: error_codes.name(each.error_code) for each in found}
            yield from diagnoses.disks(found, names)


def configuration(client: Client, found: list[Broker]) -> Iterator[Finding]:
    """Configs without effect, and replication factors that cannot be had."""
    from kpybroker.config.defaults import with_standalone_defaults
    from kpybroker.config.honoured import HONOURED, NEVER

    by_itself = with_standalone_defaults({}).items()
    for broker in found:
        if broker.is_ours:
            values = _config_values(client, broker.node_id)
            yield from diagnoses.configs(dict(values.items() - by_itself), HONOURED, NEVER)
    described = config_requests.describe(client, Resource(Kind.BROKER, str(found[0].node_id)), FACTORS) if found else []
    factors = {each.name: int(each.value) for each in described if each.value and each.value.lstrip("-").isdecimal()}
    yield from diagnoses.replication_factors(factors, len(found))


def partitions(client: Client) -> Iterator[Finding]:
    """Leaders and replicas in sync."""
    yield from diagnoses.fenced(
        [each.broker_id for each in cluster_requests.describe(client).brokers if each.is_fenced]
    )
    yield from diagnoses.partitions(
        PartitionHealth(
            f"{topic.name}-{each.partition_index}", each.leader_id, len(each.replica_nodes), len(each.isr_nodes)
        )
        for topic in client.topics()
        for each in topic.partitions
    )


def groups(client: Client, patience_s: float) -> Iterator[Finding]:
    """The states of all groups, twice, if any of them rebalances."""
    before = {each.group_id: each.group_state for each in group_requests.list_groups(client)}
    after = before
    if any(state.lower() in diagnoses.REBALANCING for state in before.values()):
        time.sleep(patience_s)
        after = {each.group_id: each.group_state for each in group_requests.list_groups(client)}
    yield from diagnoses.groups(before, after, patience_s)
