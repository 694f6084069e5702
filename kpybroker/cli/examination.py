"""Gathering the facts for ``kpybroker doctor``: asks brokers, connects to advertised addresses, reads metrics.

Nothing is changed in the cluster, except by `clock_by_record`, which the user has to ask for. A fact that cannot be
found out is a finding of its own, so that silence never looks like health.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import NamedTuple

from kpybroker.cli import diagnoses, scrape
from kpybroker.cli.broker_looks import CONNECT_TIMEOUT_S, HTTP_CONFIG, BrokerLook, all_at_once, found_page, page_at
from kpybroker.cli.diagnoses import PROBLEM, UNKNOWN, Diagnosis, PartitionHealth
from kpybroker.cli.listener_addresses import ListenerAddress, listeners_of
from kpybroker.cli.options import error_text
from kpybroker.cli.scrape import Way
from kpybroker.client import cluster_requests
from kpybroker.client.client import PLAINTEXT, Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.describe_cluster import DescribeClusterResponse
from kpywire.messages.metadata import MetadataResponseTopic

PROBE_TOPIC = "kpybroker-doctor"
FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
NO_SHARE_GROUPS = "zookeeper.connect"
"""Brokers with this config have no share groups."""
CONNECTIONS = "kafka_server_socket_server_metrics_connection_count"
FULL_LISTENERS = "kpybroker_listeners_full"
NEWCOMERS = "kpybroker_clients_without_return_seconds"
CLIENT_METADATA = "kpybroker_client_metadata_requests_total"
REQUESTS = "kafka_network_requestmetrics_requests_total"
ERRORS = "kafka_network_requestmetrics_errors_total"
GENERATIONS = "kpybroker_consumergroup_generation"
DAMAGED = "kpybroker_log_damaged_places"
FETCHED_DAMAGED = "kpybroker_replica_fetch_damaged_total"
WITHOUT_MEMBERS = ("empty", "dead", "")
SAMPLES = 10
"""Samples of the groups while the user has patience."""
SOON_S = 0.05
LEAST_SPAN_S = 1.0
"""The time between two readings of a page: soon if few requests came, else this long, to tell a burst from a loop."""


class ExaminedBroker(NamedTuple):
    """A broker with the contents of its metrics page, if it could be read."""

    node_id: int
    host: str
    port: int
    page: scrape.MetricsPage | None
    is_ours: bool


class ClusterFacts:
    """The facts that several checks need and any broker knows, each asked once. Raises KafkaError, Unreachable."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @cached_property
    def described(self) -> DescribeClusterResponse:
        """The id of the cluster, and its brokers with the fenced ones."""
        return cluster_requests.describe(self._client)

    @cached_property
    def topics(self) -> list[MetadataResponseTopic]:
        return self._client.topics()


def advertised(client: Client, facts: ClusterFacts, looks: Sequence[BrokerLook]) -> Iterator[Diagnosis]:
    """The addresses of brokers that answer, and of those that do not."""
    found = [each.probed.value for each in looks]
    cluster_id = facts.described.cluster_id
    if len(found) == 1 and found[0].problem:
        # Whom we are connected to can only be this one, so all else can still be checked.
        client.detour(found[0].broker, client.servers[0])
    bootstrap = ", ".join(f"{host}:{port}" for host, port in client.servers)
    yield from diagnoses.addresses(found, cluster_id, bootstrap)


def listeners(looks: Iterable[BrokerLook], protocol: str) -> Iterator[Diagnosis]:
    """Certificates and logins of the listeners that have any. ``protocol`` is that of the advertised addresses."""
    places: list[ListenerAddress] = []
    for look in looks:
        try:
            values = look.set_configs
        except (KafkaError, Unreachable):
            values = {}
        here = ListenerAddress(look.node_id, protocol, look.host, look.port, protocol)
        places += listeners_of(look.node_id, values, here)
    if any(each.protocol != PLAINTEXT for each in places):
        from kpybroker.cli.listener_examination import listeners

        yield from listeners(places)


def brokers(looks: Iterable[BrokerLook]) -> list[ExaminedBroker]:
    """The brokers with their metrics pages, where they have one."""
    return [ExaminedBroker(look.node_id, look.host, look.port, look.page.value, look.is_ours) for look in looks]


def unread(looks: Iterable[BrokerLook], http: str | None) -> Iterator[Diagnosis]:
    """The pages that were named, by the user or by a broker's config, and could not be read."""
    refusals: dict[str, None] = {}
    is_read = False
    for look in looks:
        try:
            is_read |= look.named_page.value is not None
        except scrape.PageRefused as refused:
            address = http or look.set_configs[HTTP_CONFIG]
            refusals[f"the page of broker {look.node_id} at {address} cannot be read: {refused}"] = None
        except (KafkaError, Unreachable):
            continue
    yield from (Diagnosis("metrics page", UNKNOWN, message) for message in refusals)
    if http is not None and not is_read and not refusals:
        yield Diagnosis("metrics page", UNKNOWN, f"nothing like metrics answers at {http}", "Name another with --http.")


def connections(page: scrape.MetricsPage) -> Iterator[Diagnosis]:
    """Whether there is room for more connections, according to a page; nothing if it does not say."""
    full = page.value(FULL_LISTENERS)
    if full is not None:
        count = sum(each.value for each in page.named(CONNECTIONS))
        yield from diagnoses.connections(full, count)


def full(servers: Sequence[tuple[str, int]], http: str | None, way: Way) -> Iterator[Diagnosis]:
    """The reason why brokers that answer no client may do so: their pages show that all connections are used up."""
    for host, port in servers:
        page = _page_or_none(host, http, way) or found_page(host, port, way)
        if page is not None:
            yield from (each for each in connections(page) if each.level == PROBLEM)


def _page_or_none(broker_host: str, address: str | None, way: Way) -> scrape.MetricsPage | None:
    try:
        return page_at(broker_host, address, way)
    except scrape.PageRefused:
        return None


def newcomers(found: list[ExaminedBroker]) -> Iterator[Diagnosis]:
    """Clients that never came back, as the brokers' metrics count them."""
    advertised = ", ".join(f"{each.host}:{each.port}" for each in found)
    pages = [(broker, broker.page) for broker in found if broker.page is not None and broker.is_ours]
    for broker, page in pages:
        seen = [
            (
                each.labels.get("client_host", "?"),
                each.labels.get("client_id", ""),
                each.labels.get("listener", ""),
                each.value,
            )
            for each in page.named(NEWCOMERS)
        ]
        yield from _of(broker, diagnoses.newcomers(seen, advertised))
    if not pages:
        yield Diagnosis(
            "clients that never come back",
            UNKNOWN,
            "only kpybroker counts them, and no metrics page of one could be read",
            "Name it with --http HOST:PORT, or start the broker with --http.",
        )


def process(found: list[ExaminedBroker]) -> Iterator[Diagnosis]:
    """The facts about the brokers' processes: files and clock."""
    for broker in found:
        if broker.page is None:
            continue
        opened, limit = broker.page.value("process_open_fds"), broker.page.value("process_max_fds")
        if opened is not None and limit is not None:
            yield from _of(broker, diagnoses.files(opened, limit))
        yield from _of(broker, connections(broker.page))
        if broker.page.date_s is not None:
            # The date has whole seconds, and the page was read within the last few.
            ahead_ms = (broker.page.date_s - time.time()) * 1000
            yield from _of(broker, diagnoses.clock(ahead_ms, 1_000 + CONNECT_TIMEOUT_S * 1000))
    yield from _without_page("open files", found)
    remedy = "Say --write to find out with a record."
    yield from (each._replace(remedy=remedy) for each in _without_page("clock", found))


def clock_by_record(client: Client) -> Iterator[Diagnosis]:
    """Write one record to a topic made for it, with a timestamp by the broker, and read it back."""
    from kpybroker.client import topic_requests
    from kpybroker.client.reader import RecordReader
    from kpybroker.client.sender import Sender
    from kpywire.record import Record

    name = f"{PROBE_TOPIC}-{time.time_ns()}"
    topic_requests.create(client, name, 1, 1, {"message.timestamp.type": "LogAppendTime"})
    try:
        before_ms = time.time() * 1000
        Sender(client, name).send([Record(value=b"what time is it?")])
        after_ms = time.time() * 1000
        (found, *_) = RecordReader(client, {Spot(name, 0): 0}).poll()
        middle_ms = (before_ms + after_ms) / 2
        yield from diagnoses.clock(found.record.timestamp - middle_ms, (after_ms - before_ms) / 2 + 1)
    finally:
        topic_requests.delete(client, name)


def storage(looks: Iterable[BrokerLook]) -> Iterator[Diagnosis]:
    """Log directories and their disks."""
    for look in looks:
        try:
            found = look.directories.value
        except (KafkaError, Unreachable) as error:
            why = error_text(error) if isinstance(error, KafkaError) else error
            yield Diagnosis("log directories", UNKNOWN, f"broker {look.node_id} does not say: {why}")
        else:
            names = {each.error_code: error_codes.name(each.error_code) for each in found}
            yield from diagnoses.disks(found, names)


def configuration(looks: Sequence[BrokerLook], away: Collection[int]) -> Iterator[Diagnosis]:
    """Configs without effect, and replication factors that are impossible even with the brokers that are away."""
    from kpybroker.config.authorizer_configs import ALLOWS_WITHOUT_ACL, OF_OWN_ZOOKEEPER, SUPER_USERS
    from kpybroker.config.broker_values import with_standalone_defaults
    from kpybroker.config.honoured import HONOURED, NEVER
    from kpybroker.config.zookeeper_configs import ZOOKEEPER_CONFIGS

    by_itself = with_standalone_defaults({}).items()
    for look in looks:
        if look.is_ours:
            values = look.set_configs
            honoured = HONOURED | ZOOKEEPER_CONFIGS.keys() | {*OF_OWN_ZOOKEEPER, SUPER_USERS, ALLOWS_WITHOUT_ACL}
            found = diagnoses.configs(dict(values.items() - by_itself), honoured, NEVER)
            yield from _of(look, found)
    described = {each.name: each.value or "" for look in looks[:1] for each in look.configs.value}
    factors = {name: int(described[name]) for name in FACTORS if described.get(name, "").lstrip("-").isdecimal()}
    if described.get(NO_SHARE_GROUPS):
        factors.pop("share.coordinator.state.topic.replication.factor", None)
    yield from diagnoses.replication_factors(factors, len({look.node_id for look in looks} | set(away)))


def acls(client: Client) -> Iterator[Diagnosis]:
    """The ACLs of a cluster; nothing where it has no authorizer."""
    from kpybroker.client import acl_requests

    try:
        found = acl_requests.describe(client)
    except KafkaError as error:
        if error.code == error_codes.SECURITY_DISABLED:
            return
        raise
    from kpybroker.cli.acls import reads_networks

    yield from diagnoses.acls(found, reads_networks=reads_networks(client))


def away(facts: ClusterFacts, alive: Collection[int]) -> tuple[set[int], set[int]]:
    """The brokers that are not alive: those that are registered, which only Kafka 4 tells, and all that hold
    replicas."""
    registered = {each.broker_id for each in facts.described.brokers if each.is_fenced}
    replicas = {broker for topic in facts.topics for each in topic.partitions for broker in each.replica_nodes}
    return registered, replicas.difference(alive)


def partitions(facts: ClusterFacts, away: Collection[int]) -> Iterator[Diagnosis]:
    """Leaders and replicas in sync."""
    found = [
        PartitionHealth(f"{topic.name}-{each.partition_index}", each.leader_id, each.replica_nodes, each.isr_nodes)
        for topic in facts.topics
        for each in topic.partitions
    ]
    yield from diagnoses.partitions(found, away)


def groups(client: Client, patience_s: float) -> Iterator[Diagnosis]:
    """The states of all groups, at several moments if any of them has members."""
    samples = [_states(client)]
    began_s = time.monotonic()
    if any(state.lower() not in WITHOUT_MEMBERS for state in samples[0].values()):
        for _ in range(SAMPLES):
            time.sleep(patience_s / SAMPLES)
            samples.append(_states(client))
    yield from diagnoses.groups(samples, time.monotonic() - began_s)


def _states(client: Client) -> dict[str, str]:
    from kpybroker.client.group_listing import list_groups

    return {each.group_id: each.group_state for each in list_groups(client)}


def over_time(found: list[ExaminedBroker], patience_s: float, way: Way) -> Iterator[Diagnosis]:
    """The facts that take two readings of a metrics page: clients that ask all the time, groups that keep
    rebalancing."""
    pages = [(broker, broker.page) for broker in found if broker.page is not None]
    later = all_at_once([partial(_later, page, patience_s, way) for _, page in pages])
    for (broker, before), after in zip(pages, later, strict=True):
        if after is None:
            yield Diagnosis("metadata requests", UNKNOWN, f"the metrics page of broker {broker.node_id} is gone")
            continue
        seconds = max(after.read_s - before.read_s, 0.001)
        rates = _grown(before, after, CLIENT_METADATA, "client_host", "client_id")
        by_client = {(host, client): count / seconds for (host, client), count in rates.items()}
        yield from _of(broker, diagnoses.metadata_load(by_client, _metadata_requests(before, after) / seconds))
        then, now = (
            {name: value for (name,), value in page.by_labels(GENERATIONS, "consumergroup").items()}
            for page in (before, after)
        )
        yield from diagnoses.generations(then, now, seconds)
    yield from _without_page("metadata requests", found)


def _later(before: scrape.MetricsPage, patience_s: float, way: Way) -> scrape.MetricsPage | None:
    """The page at a later moment; None if it is gone."""
    after: scrape.MetricsPage | None = None
    for span_s in (SOON_S, LEAST_SPAN_S):
        # The next page takes as long to come as this one did.
        time.sleep(max(0.0, min(span_s, patience_s) - before.took_s - (time.monotonic() - before.read_s)))
        try:
            after = scrape.fetch(*before.place, CONNECT_TIMEOUT_S, way)
        except scrape.PageRefused:
            return None
        if after is None:
            break
        if _metadata_requests(before, after) < diagnoses.MANY_FROM_ONE * (after.read_s - before.read_s):
            break
    return after


def _metadata_requests(before: scrape.MetricsPage, after: scrape.MetricsPage) -> float:
    """The requests for metadata between two readings."""
    return sum(_grown(before, after, REQUESTS, request="Metadata").values())


def _grown(
    before: scrape.MetricsPage, after: scrape.MetricsPage, name: str, *labels: str, **wanted: str
) -> dict[tuple[str, ...], float]:
    """The growth of counters. A new counter is left out, since it may have counted for long."""
    then = before.by_labels(name, *labels, **wanted)
    return {key: value - then[key] for key, value in after.by_labels(name, *labels, **wanted).items() if key in then}


def damage(found: list[ExaminedBroker]) -> Iterator[Diagnosis]:
    """Damaged batches that readers have met, as the brokers' metrics count them."""
    for broker in found:
        if broker.page is None:
            continue
        places = broker.page.by_labels(DAMAGED, "logDirectory", "topic", "partition")
        answers = broker.page.by_labels(ERRORS, request="Fetch", error="CORRUPT_MESSAGE")
        by_place = {(directory, f"{topic}-{index}"): int(count) for (directory, topic, index), count in places.items()}
        fetched = broker.page.value(FETCHED_DAMAGED) or 0
        yield from _of(broker, diagnoses.damage(by_place, sum(answers.values()), fetched))
    yield from _without_page("corrupt batches", found)


def _of(broker: ExaminedBroker | BrokerLook, findings: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Findings about one broker, which each of them names."""
    return (each._replace(message=f"broker {broker.node_id}: {each.message}") for each in findings)


def _without_page(check: str, found: Iterable[ExaminedBroker]) -> Iterator[Diagnosis]:
    """The brokers whose pages a check lacks."""
    missing = [str(broker.node_id) for broker in found if broker.page is None]
    if missing:
        brokers = f"broker{'s' * (len(missing) > 1)} {', '.join(missing)}"
        message = f"no metrics page of {brokers} could be read"
        yield Diagnosis(check, UNKNOWN, message, "Name it with --http HOST:PORT.")
