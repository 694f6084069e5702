"""Broker configs that Kafka does not have: their names begin with ``kpybroker.``.

They are read from the same places as Kafka's, and DescribeConfigs shows them only if they are set.
"""

import re
from typing import Final

from kpybroker.config.validators import HostAndPort, HttpUrl, at_least, between, list_of, one_of
from kpybroker.machines.config_def import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    MEDIUM,
    PASSWORD,
    STRING,
    ConfigKey,
    ConfigValue,
    Definitions,
    define,
    invalid_value,
)
from kpybroker.machines.metadata.mirror_configs import CARRIED, MIRRORS

BALANCER_DISK_LIMIT: Final = "kpybroker.balancer.disk.limit.percent"
BALANCER_IDLE_DISK: Final = "kpybroker.balancer.idle.disk.percent"
BALANCER_INTERVAL_MS: Final = "kpybroker.balancer.interval.ms"
BALANCER_MODE: Final = "kpybroker.balancer.mode"
BALANCER_MOST_RATE: Final = "kpybroker.balancer.max.bytes.per.second"
BALANCER_MOVES: Final = "kpybroker.balancer.moves"
BALANCER_TOLERANCE: Final = "kpybroker.balancer.tolerance.percent"
CONSOLE_URL: Final = "kpybroker.console.url"
HTTP_FIRST_PORT: Final = "kpybroker.http.first.port"
REGISTRY_URL: Final = "kpybroker.console.schema.registry.url"
REGISTRY_LOGIN: Final = "kpybroker.console.schema.registry.basic.auth.user.info"
OTLP_ENDPOINT: Final = "kpybroker.otlp.endpoint"
OTLP_HEADERS: Final = "kpybroker.otlp.headers"
OTLP_INTERVAL_MS: Final = "kpybroker.otlp.interval.ms"
LOG_FORMAT: Final = "kpybroker.log.format"
REMOTE_COMPACTED_ENABLE: Final = "kpybroker.remote.compacted.enable"
REMOTE_COPY_DEADLINE_MS: Final = "kpybroker.remote.copy.deadline.ms"
REMOTE_SWEEP_INTERVAL_MS: Final = "kpybroker.remote.sweep.interval.ms"
MIRROR_DIRECTORY: Final = "kpybroker.mirror.directory"
MIRROR_RATE: Final = "kpybroker.mirror.max.bytes.per.second"
GROUP_READABLE: Final = "kpybroker.log.dirs.group.readable"
SUSPICION: Final = "kpybroker.suspicion.enable"
REMOTE_STORE: Final = "kpybroker.remote.store"
TEXT_LOG: Final = "text"
JSON_LOG: Final = "json"
METRIC_DIALECTS: Final = ("strimzi", "confluent", "kafka_exporter", "kafka_lag_exporter", "native")
METRIC_LABELS: Final = frozenset(
    {
        *(
            "ackType",
            "address",
            "client_host",
            "client_instance_id",
            "client_rack",
            "clientId",
            "client_id",
            "clientid",
            "client_software_name",
            "client_software_version",
        ),
        *(
            "clientSoftwareName",
            "clientSoftwareVersion",
            "cluster_name",
            "consumergroup",
            "current_state",
            "error",
            "generation",
            "group",
            "group_id",
        ),
        *(
            "id",
            "implementation",
            "listener",
            "logDirectory",
            "logdirectory",
            "major",
            "minor",
            "networkProcessor",
            "network_processor",
        ),
        *("metric", "mirror", "partition", "patchlevel", "protocol", "quantile", "request", "result", "state", "topic"),
        *("transactional_id", "user", "version"),
    }
)
"""The label names that metrics use themselves."""
_MIRROR = re.compile(
    r"[a-zA-Z0-9_-]{1,64}:[a-zA-Z0-9._*-]+(\|[a-zA-Z0-9._*-]+)*(:(acls|quotas|acls\|quotas))?", re.ASCII
)
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*\s*=.*", re.ASCII)


class StaticLabels:
    """``name=value`` entries with names that Prometheus takes and no metric uses, each once."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        names = [entry.partition("=")[0].strip() for entry in value]
        for label, entry in zip(names, value, strict=True):
            if _LABEL.fullmatch(entry) is None:
                raise invalid_value(name, value, f"{entry!r} is not name=value with a label's name")
            if label in METRIC_LABELS or names.count(label) > 1:
                raise invalid_value(name, value, f"the label {label} exists already")

    def __str__(self) -> str:
        return "name=value,..."


class MirrorEntries:
    """``name:pattern|pattern`` entries, one for each mirror, with ``:acls|quotas`` for those that carry them over."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        names = [entry.partition(":")[0] for entry in value]
        for entry in value:
            if _MIRROR.fullmatch(entry) is None or names.count(entry.partition(":")[0]) > 1:
                raise invalid_value(name, value, f"{entry!r} is not name:pattern|pattern, with another name for each")

    def __str__(self) -> str:
        return "name:pattern|pattern,..."


OWN_CONFIGS: Definitions = define(
    [
        ConfigKey(BALANCER_DISK_LIMIT, DOUBLE, 85.0, LOW, between(1, 100), update=CLUSTER_WIDE),
        ConfigKey(BALANCER_IDLE_DISK, DOUBLE, 20.0, LOW, between(0, 100), update=CLUSTER_WIDE),
        ConfigKey(BALANCER_INTERVAL_MS, INT, 300_000, LOW, at_least(1000), update=CLUSTER_WIDE),
        ConfigKey(BALANCER_MOST_RATE, LONG, 1 << 30, LOW, at_least(1), update=CLUSTER_WIDE),
        ConfigKey(BALANCER_MODE, STRING, "off", MEDIUM, one_of("off", "advise", "auto"), update=CLUSTER_WIDE),
        ConfigKey(BALANCER_MOVES, LIST, (), LOW, update=CLUSTER_WIDE),
        ConfigKey(BALANCER_TOLERANCE, DOUBLE, 10.0, LOW, between(0, 100), update=CLUSTER_WIDE),
        ConfigKey("kpybroker.client.metrics.always.offered", BOOLEAN, False, LOW),
        ConfigKey("kpybroker.client.metrics.max.series", INT, 20_000, LOW, at_least(0)),
        ConfigKey("kpybroker.console.hosts", LIST, (), LOW),
        ConfigKey(REGISTRY_LOGIN, PASSWORD, None, LOW),
        ConfigKey(REGISTRY_URL, STRING, "", LOW, HttpUrl()),
        ConfigKey(CONSOLE_URL, STRING, "", LOW, HttpUrl()),
        ConfigKey("kpybroker.console.write.enable", BOOLEAN, False, LOW),
        ConfigKey("kpybroker.group.consumer.unsettled.heartbeat.interval.ms", INT, 250, LOW, at_least(0)),
        ConfigKey("kpybroker.group.share.unsettled.heartbeat.interval.ms", INT, 250, LOW, at_least(0)),
        ConfigKey("kpybroker.group.streams.topology.description.max.bytes", INT, 262_144, LOW, at_least(0)),
        ConfigKey("kpybroker.history.enable", BOOLEAN, True, LOW),
        ConfigKey(HTTP_FIRST_PORT, INT, 9404, LOW, between(1, 65_535)),
        ConfigKey("kpybroker.http.hosts", LIST, (), LOW),
        ConfigKey("kpybroker.http.listener", STRING, "127.0.0.1:9404", LOW, HostAndPort()),
        ConfigKey("kpybroker.http.open.paths", LIST, ("/live", "/ready"), LOW, list_of()),
        ConfigKey("kpybroker.http.ssl.key.password", PASSWORD, None, LOW),
        ConfigKey("kpybroker.http.ssl.keystore.location", STRING, None, LOW),
        ConfigKey("kpybroker.http.users", STRING, "", LOW),
        ConfigKey(GROUP_READABLE, BOOLEAN, False, LOW),
        ConfigKey(LOG_FORMAT, STRING, TEXT_LOG, LOW, one_of(TEXT_LOG, JSON_LOG)),
        ConfigKey("kpybroker.loop.lag.warn.ms", INT, 250, LOW, at_least(0)),
        ConfigKey("kpybroker.max.partitions.per.principal", INT, 0, LOW, at_least(0)),
        ConfigKey("kpybroker.max.topics.per.principal", INT, 0, LOW, at_least(0)),
        ConfigKey(
            "kpybroker.metrics.dialects",
            LIST,
            ("strimzi", "kafka_exporter", "native"),
            LOW,
            list_of(*METRIC_DIALECTS, empty=False),
        ),
        ConfigKey("kpybroker.metrics.max.partitions", INT, 10_000, LOW, at_least(0)),
        ConfigKey("kpybroker.metrics.static.labels", LIST, (), LOW, StaticLabels()),
        ConfigKey(CARRIED, LIST, (), LOW, update=CLUSTER_WIDE),
        ConfigKey(MIRROR_DIRECTORY, STRING, None, MEDIUM),
        ConfigKey(MIRROR_RATE, LONG, LONG_MAX, MEDIUM, at_least(1), update=CLUSTER_WIDE),
        ConfigKey(MIRRORS, LIST, (), MEDIUM, MirrorEntries(), update=CLUSTER_WIDE),
        ConfigKey("kpybroker.oauthbearer.allowed.urls", LIST, (), MEDIUM),
        ConfigKey(OTLP_ENDPOINT, STRING, "", LOW, HttpUrl()),
        ConfigKey(OTLP_HEADERS, PASSWORD, None, LOW),
        ConfigKey(OTLP_INTERVAL_MS, INT, 60_000, LOW, at_least(1000)),
        ConfigKey(REMOTE_COMPACTED_ENABLE, BOOLEAN, False, MEDIUM),
        ConfigKey(REMOTE_COPY_DEADLINE_MS, INT, 600_000, LOW, at_least(1000)),
        ConfigKey(REMOTE_SWEEP_INTERVAL_MS, INT, 21_600_000, LOW, at_least(-1)),
        ConfigKey(REMOTE_STORE, STRING, "", MEDIUM),
        ConfigKey(SUSPICION, BOOLEAN, True, MEDIUM),
    ]
)

OWN_DOCUMENTATION: Final = {
    BALANCER_DISK_LIMIT: "No step of the balancer fills a disk more than that.",
    BALANCER_IDLE_DISK: "A disk that is filled less than that is no reason for a move of the balancer.",
    BALANCER_INTERVAL_MS: "The time between two plans of the balancer.",
    BALANCER_MOST_RATE: (
        "The highest throttle of the balancer's moves, a second and broker. It begins with 20 MiB or less, and follows "
        "what clients feel."
    ),
    BALANCER_MODE: (
        "The balancer of the active controller (docs/balance.md): off, advise for plans with their reasons, or auto to "
        "carry them out as well. When somebody cancels its moves, it sets advise."
    ),
    BALANCER_MOVES: (
        "The partitions that the balancer moves now, as topic:partition. The balancer sets and removes it, so that the "
        "next controller goes on; it is set by nobody else."
    ),
    BALANCER_TOLERANCE: "A broker may be above its share by that much before the balancer relieves it.",
    "kpybroker.client.metrics.always.offered": (
        "Whether brokers always list the two APIs of clients' metrics (KIP-714). Otherwise they do once the cluster "
        "has a subscription to them, and clients that were connected before notice it late (docs/metrics.md)."
    ),
    "kpybroker.client.metrics.max.series": (
        "How many series of clients' metrics are kept and shown (KIP-714, docs/metrics.md); 0 for none: then clients "
        "are not asked for their metrics, as by Kafka without a plug-in that receives them."
    ),
    "kpybroker.console.hosts": "Further names, as in kpybroker.http.hosts.",
    REGISTRY_LOGIN: "The login of the console at the schema registry, as user:password.",
    REGISTRY_URL: (
        "The http or https URL of a schema registry. The console shows keys and values that begin with Confluent's "
        "five bytes by their schemas: Avro, Protobuf, JSON Schema. Empty for none. It needs the extra schemas."
    ),
    CONSOLE_URL: (
        "The URL of this node's console for browsers, which the consoles of other nodes link to: behind a proxy, or "
        "where ports are mapped. Empty for the one that follows from kpybroker.http.listener; where that is every "
        "interface, its host is the one that clients are given."
    ),
    "kpybroker.console.write.enable": (
        "Whether the console may change something: topics and their records, configs, transactions. "
        "Each change is logged with its user, who needs the ACLs for it."
    ),
    "kpybroker.group.consumer.unsettled.heartbeat.interval.ms": (
        "The interval between heartbeats of a Java member of a consumer group (KIP-848) while partitions of its group "
        "move; a large group gets at least 2 ms for each member. At rest the interval is 1 s, or 5 ms for each member "
        "that the node has, up to group.consumer.heartbeat.interval.ms. 0 for the latter at all times, as on Apache "
        "Kafka."
    ),
    "kpybroker.group.share.unsettled.heartbeat.interval.ms": (
        "The interval between heartbeats of a member of a share group (KIP-932) that waits for partitions. A group "
        "that has none yet gets its first ones without delay. At rest the interval of a Java member is 1 s, or 5 ms "
        "for each member that the node has, up to group.share.heartbeat.interval.ms. 0 for the latter at all times, as "
        "on Apache Kafka."
    ),
    "kpybroker.group.streams.topology.description.max.bytes": (
        "The largest description of a topology that is kept for a streams group (KIP-1331). Members with a larger one "
        "get STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED. 0 for none: then members are not asked for descriptions, as "
        "by an Apache Kafka without a plug-in."
    ),
    "kpybroker.history.enable": (
        "Whether the node keeps a day of samples for the plots of the console although nobody looks at it: in memory, "
        "and in .kpybroker_history in the directory of its metadata (docs/console.md). Otherwise the samples begin "
        "with the first look at the console, and are only in memory."
    ),
    HTTP_FIRST_PORT: (
        "The port of the console when kpybroker.http.listener is not set. When it is taken, the next free one of nine "
        "is used. start --brokers sets it, so that consoles have their ports in the order of the nodes."
    ),
    "kpybroker.http.hosts": (
        "The host names under which the second port is served, in addition to localhost, IP addresses, the name of the "
        "machine, and the hosts of kpybroker.http.listener and advertised.listeners. Requests for other names are "
        "refused, so that no other site can pose as this node; /live and /ready are served under every name."
    ),
    "kpybroker.http.listener": (
        "The address of the console, /metrics, /live and /ready over HTTP; empty for none. When it is not set it is "
        "127.0.0.1 at kpybroker.http.first.port, or at the next free port of nine."
    ),
    "kpybroker.http.open.paths": (
        "The paths of the second port that are served without a login. All others need one of kpybroker.http.users; "
        "without users they are served on loopback only."
    ),
    "kpybroker.http.ssl.key.password": "The password of the private key in kpybroker.http.ssl.keystore.location.",
    "kpybroker.http.ssl.keystore.location": (
        "A PEM file with the private key and the certificates for https on the second port; without it the port speaks "
        "http. The file is read again when it has changed."
    ),
    "kpybroker.http.users": (
        "The users that log in to the second port by basic authentication: scram for those with SCRAM credentials in "
        "the cluster, or a file with lines name=password; empty for no login. With an authorizer, /metrics needs "
        "DESCRIBE on the cluster."
    ),
    GROUP_READABLE: (
        "Whether the group of the broker's user may read new files of logs (0640, directories 0750), for programs that "
        "read files; false: the broker's user alone (0600, 0700). The metadata log is closed in any case."
    ),
    LOG_FORMAT: (
        "The form of log lines: text, or json for one object a line with time, level, logger, node and message."
    ),
    "kpybroker.loop.lag.warn.ms": (
        "If the event loop served nobody for this time, a warning names the request that took longest; 0 for never."
    ),
    "kpybroker.max.partitions.per.principal": (
        "The most partitions of all topics that a principal has created while there is such a bound, for controllers; "
        "0 for no bound. Super users have none."
    ),
    "kpybroker.max.topics.per.principal": (
        "The most topics that a principal may have created, likewise (docs/quotas.md)."
    ),
    "kpybroker.metrics.dialects": (
        "The names under which metrics are shown: strimzi, confluent, kafka_exporter, kafka_lag_exporter, native "
        "(docs/metrics.md has them all)."
    ),
    "kpybroker.metrics.max.partitions": (
        "How many partitions have metrics of their own, and how many positions of groups; the others are only in sums."
    ),
    "kpybroker.metrics.static.labels": (
        "Labels that every metric carries, as name=value,name=value: what dashboards select by and nobody else adds."
    ),
    MIRROR_DIRECTORY: (
        "The directory with a file NAME.properties for each mirror: how this broker connects to the source, with the "
        "properties of Kafka's clients, bootstrap.servers among them."
    ),
    CARRIED: (
        "Digests of the ACLs and quotas that mirrors have carried over from their sources, which are deleted when they "
        "are deleted there. kpybroker sets it."
    ),
    MIRROR_RATE: "The most bytes per second that this broker fetches for one mirror from its source.",
    MIRRORS: (
        "The mirrors of this cluster, each with the patterns of the source's topics, as in dr:orders.*|payments; * "
        "stands for any characters. With :acls, :quotas or :acls|quotas behind them these are carried over, too. "
        "kpybroker mirror sets it for all brokers."
    ),
    "kpybroker.oauthbearer.allowed.urls": (
        "The URLs that sasl.oauthbearer.jwks.endpoint.url and sasl.oauthbearer.token.endpoint.url may have; by default "
        "none. It takes the place of the JVM's system property org.apache.kafka.sasl.oauthbearer.allowed.urls."
    ),
    REMOTE_COMPACTED_ENABLE: (
        "Whether compacted topics may be tiered (docs/tiered-storage.md); the same on all nodes. Apache Kafka refuses "
        "such topics, so a cluster that has one cannot move back to it; by default they are refused here, too."
    ),
    REMOTE_COPY_DEADLINE_MS: (
        "The longest time that the copy of one segment to the store may take; then it is tried again under another id."
    ),
    REMOTE_SWEEP_INTERVAL_MS: (
        "The time between two searches for objects in the store that belong to no segment; -1 for none."
    ),
    OTLP_ENDPOINT: (
        "The http or https URL of an OpenTelemetry collector that the metrics are pushed to (OTLP, Protobuf); its path "
        "is /v1/metrics where none is given. Empty for none. It needs the extra otlp."
    ),
    OTLP_HEADERS: "Headers of these requests, as name=value,name=value; for the credentials that a collector demands.",
    OTLP_INTERVAL_MS: "The time between two pushes of all metrics.",
    REMOTE_STORE: (
        "The store of tiered storage (KIP-405) in Aiven's layout: s3://bucket/prefix, gs://bucket/prefix, "
        "az://container/prefix, file:///directory, or memory: for tests. Endpoints, credentials and caches are the "
        "configs of Aiven's plugin behind remote.log.storage.manager.impl.prefix. Empty where these name the store."
    ),
    SUSPICION: (
        "Whether brokers report silent peers, and may be fenced because of such reports before their sessions end "
        "(docs/clusters.md). The broker and the active controller need it; otherwise the end of the session decides "
        "alone, as on Apache Kafka."
    ),
}
