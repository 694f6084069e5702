"""docs/metrics.md: every metric and its name in each dialect.

The tables are those that a scrape is written from; a test compares the file with them.
"""

from collections.abc import Iterable
from typing import Final

from kpybroker.monitoring.metrics import (
    askers,
    authorization,
    balancing,
    cleaning,
    clients,
    damage,
    event_loop,
    lag,
    lending,
    mirroring,
    newcomers,
    node_state,
    partitions,
    quorum,
    quotas,
    replication,
    requests,
    shares,
    telemetry,
    tiering,
)
from kpybroker.monitoring.metrics.table import (
    CONFLUENT,
    KAFKA_EXPORTER,
    KAFKA_LAG_EXPORTER,
    NATIVE,
    STRIMZI,
    Measure,
    Name,
    Table,
)

_HEAD = """\
# Metrics

Written by `make tables` from the tables in `kpybroker/monitoring/metrics/`.

`GET /metrics` on the second port (`kpybroker.http.listener`, `127.0.0.1:9404` unless set) answers Prometheus' text
format. The same values can leave under several names, so that dashboards made for other exporters find what they
know. `kpybroker.metrics.dialects` chooses, from:

| dialect | names | known to |
|---|---|---|
| `strimzi` | the JMX exporter's, with Strimzi's rules | Strimzi's `strimzi-kafka` and `strimzi-kraft` dashboards |
| `confluent` | the JMX exporter's, with Confluent's rules | the dashboards of Confluent's jmx-monitoring-stacks |
| `kafka_exporter` | kafka_exporter's | Grafana dashboard 7589, Strimzi's `strimzi-kafka-exporter` |
| `kafka_lag_exporter` | kafka-lag-exporter's | its dashboards, and Confluent's copy of them |
| `native` | ours | [docker/monitoring](../docker/monitoring) |

On loopback it needs no login; on another address it needs one of `kpybroker.http.users`, or
`kpybroker.http.open.paths=/live,/ready,/metrics` ([security.md](security.md#metrics-and-probes)). Scrape by an IP
address, by a host of `advertised.listeners`, or by a name in `kpybroker.http.hosts`: other names get 421.

Without the setting these are `strimzi`, `kafka_exporter` and `native`. Metrics that are named `jvm_...` elsewhere
have no counterpart, and a few panels stay empty: of `strimzi-kraft` those about the commit latency and the bytes of
the quorum; of Confluent's those about rates of connections, queues between threads, message conversions, and what
only its own server has. Everything else that these dashboards ask for is there under their names, with their labels.

Dashboards also select by labels that a Kubernetes operator adds: Strimzi's by `namespace`, `strimzi_io_cluster`,
`strimzi_io_name`, `kubernetes_pod_name` and `container`, Confluent's by `job`, `env` and `instance`. Where nobody
else adds them, a scrape config can ([docker/monitoring/prometheus.yml](../docker/monitoring/prometheus.yml) does),
or the broker: `kpybroker.metrics.static.labels=namespace=kafka,strimzi_io_cluster=local`.

`kpybroker.metrics.max.partitions` (10 000) bounds the series: further partitions are in sums only, further positions
of groups and readers are left out, and `kpybroker_partitions_left_out` and `kpybroker_positions_left_out` count them.

## Dashboards and alerts

[docker/monitoring](../docker/monitoring) has what a person needs who runs Prometheus and Grafana. It asks only for
names that a node shows without configuration, and for three of tiered storage, where that is configured.

| file | shows |
|---|---|
| `kpybroker.json` | a node: throughput, errors, where the time of requests goes, memory, the event loop |
| `kpybroker-cluster.json` | a cluster: controllers, leaders, in-sync sets, the quorum, the load of the nodes |
| `kpybroker-groups.json` | groups: lag in seconds and records, progress, members, rebalances, open transactions |
| `kpybroker-spark.json` | the same for queries of Spark, which commit to no group |
| `alerts.yml` | alerts for Prometheus (`rule_files`), for each of the four |
| `prometheus.yml` | scrape configs, also with the labels that others' dashboards select by |

The `job` of the scrape config is the cluster. `promtool test rules tests/metrics/alert_cases.yml` plays a
cluster where every alert fires, and one where none does. A test asks a real Prometheus, which scrapes a node, for every
panel of the dashboards.

The pictures are drawn by **Grafana's own panel components** (`@grafana/ui` 13.2.3, Apache-2.0) from the dashboard files
and the answers of a real Prometheus (`make pictures`), in both of Grafana's themes. Grafana's server was not there: the
page around the panels is ours, and the font is that of the machine. As in Grafana, a long legend scrolls. Three nodes
serve producers, two groups, transactions and a query of Spark; one node dies and comes back.

A node:

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="figures/dashboards/kpybroker-dark.png">
  <img alt="The dashboard of a node" src="figures/dashboards/kpybroker-light.png">
</picture>

A cluster:

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="figures/dashboards/kpybroker-cluster-dark.png">
  <img alt="The dashboard of a cluster" src="figures/dashboards/kpybroker-cluster-light.png">
</picture>

Groups:

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="figures/dashboards/kpybroker-groups-dark.png">
  <img alt="The dashboard of groups" src="figures/dashboards/kpybroker-groups-light.png">
</picture>

Spark's readers:

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="figures/dashboards/kpybroker-spark-dark.png">
  <img alt="The dashboard of Spark's readers" src="figures/dashboards/kpybroker-spark-light.png">
</picture>

## What the values mean

- **Counters** only grow while the process lives. The row of `kafka_server_brokertopicmetrics_...` without a topic
  is the sum over all topics, also deleted ones.
- **Times of requests** are split as Kafka splits them. `requestqueue`: readable, while others were served. `local`:
  decoded, handled and encoded. `remote`: parked, for records or for a commit. `responsequeue`: answered, while
  earlier answers of the connection were due. `responsesend`: until the socket had taken the last byte. What
  takes less than 50 µs of any but `local` and `total` counts as nothing. Quantiles are those of the last minute, from
  buckets of half an octave, within which they are estimates. Kafka's weigh five minutes.
- **Partitions** appear when their log is open: at its first use after a start, or when retention looks at it
  (`log.retention.check.interval.ms`).
- **Lag** has one definition, `kpybroker/machines/lag.py`, for metrics, console, commands and tests. In records it is
  the high watermark less the position, as kafka_exporter and Kafka's own tool count it, and less the records behind
  the position that a share group is done with; never below 0.
- **Lag in seconds** is the age of the oldest record that is not read yet; 0 when all is read. It is read, not
  estimated, and missing where records carry no timestamp. A node takes the first timestamp of the batch that holds the
  record (with `LogAppendTime`, the time of its append), commands that of the record itself.
- **Readers without a group** appear among the groups: a client that fetches and is no member of a group that this
  node coordinates has its client id there. Java clients without an id of their own are called after their `group.id`,
  so a query of Spark is its `spark-kafka-source-...`, one series for all executors. Their position is the end of what
  was sent to them, or where their last fetch began if it could not take everything; of several connections the
  furthest. A reader that has not fetched for five minutes is left out. Readers that use no fetch session are known
  for up to 200 partitions at a time. `kpybroker_reader_info` has their client ids.
- **The event loop** serves everybody, so both of Kafka's idle percentages are its idleness, and
  `kpybroker_loop_lag_seconds` is how long nobody was served. From `kpybroker.loop.lag.warn.ms` on, the log says so
  and names the request that took longest.
- **Clients' own metrics** (KIP-714) are there once a subscription asks for them, as
  `kafka-client-metrics.sh --alter --name readers --metrics org.apache.kafka.consumer. --interval 10000` or
  `kpybroker configs alter --client-metrics readers --set metrics=org.apache.kafka.consumer. --set interval.ms=10000`
  makes one. Brokers list the two APIs of clients' metrics from then on, or always with
  `kpybroker.client.metrics.always.offered=true`: librdkafka logs a line about telemetry wherever they are listed. So
  clients that start later push at once. Of those that were connected before, librdkafka's notice the first subscription
  when they connect again, and Java's when they are started again. Clients push to one of the brokers.
  `org.apache.kafka.consumer.fetch.manager.fetch.latency.avg` becomes
  `kafka_client_consumer_fetch_manager_fetch_latency_avg`, in every dialect, with `client_id`, `client_instance_id`,
  `client_software_name`, `client_software_version`, what the client says of itself (`client_rack`, `group_id`,
  `transactional_id`) and the labels of the metric. Gauges have their last value, counters the sum of what was pushed. A
  client's series end with its connection, or after three silent intervals and a minute at least.
  `kpybroker_client_metric` has the median, the 95th percentile and the maximum of each gauge over the clients, each
  with its largest value. `kpybroker.client.metrics.max.series` (20 000) bounds the series: beyond it the client whose
  last push is the longest ago loses its own, and a client has at most 2 000. 0 switches the receiver off.
- **Errors** are counted by API and Kafka's name of the error; unlike Kafka, answers without one are not.
"""

SECTIONS: Final = (
    ("Node", (node_state.BROKER, node_state.BROKER_INFO, event_loop.LOOP, event_loop.LATENESS, partitions.NODE)),
    ("Controller and quorum", (quorum.CONTROLLER, quorum.QUORUM, quorum.EARLY, quorum.STATE)),
    ("Requests", (requests.REQUESTS, requests.ERRORS, requests.TIMES, requests.COUNTS, requests.COSTS)),
    (
        "Connections and memory",
        (clients.CONNECTIONS, clients.SOFTWARE, clients.TOTALS, newcomers.WITHOUT_RETURN, askers.METADATA_REQUESTS),
    ),
    (
        "Topics and partitions",
        (partitions.TOPICS, partitions.TOPIC_PARTITIONS, partitions.PARTITIONS, partitions.OF_LAG_EXPORTER),
    ),
    ("Permissions", (authorization.ACLS, authorization.DECISIONS)),
    ("Clients' own metrics", (telemetry.RECEIVER, telemetry.OVER_CLIENTS)),
    (
        "Share groups",
        (
            shares.SESSIONS,
            shares.LOADS,
            shares.ACKNOWLEDGEMENTS,
            shares.READS,
            shares.READ_QUANTILES,
            shares.DEAD_LETTERS,
            shares.IN_FLIGHT,
        ),
    ),
    ("Quotas", (quotas.PRODUCE, quotas.FETCH, quotas.REQUEST, quotas.DELAYED)),
    ("Damage", (damage.DAMAGED,)),
    ("The balancer, on the node of the active controller", (balancing.BALANCER,)),
    ("Leases on segments", (lending.LEASES,)),
    ("Mirrors", (mirroring.FED_PARTITIONS, mirroring.HELD_PARTITIONS)),
    ("Compaction", (cleaning.CLEANERS, cleaning.UNCLEANABLE)),
    ("Replication", (replication.FETCHERS, replication.BYTES)),
    (
        "Tiered storage, where it is configured",
        (tiering.TOPIC_COUNTS, tiering.TOPIC_SIZES, tiering.WAITS, tiering.NODE, tiering.LIST_OFFSETS),
    ),
    (
        "Groups and readers",
        (
            lag.GROUPS,
            lag.GROUPS_BY_PROTOCOL,
            *lag.GROUPS_IN_STATES.values(),
            lag.REBALANCES,
            lag.DESCRIPTIONS,
            lag.MEMBERS,
            lag.GENERATIONS,
            lag.LAG,
            lag.LAG_SUMS,
            lag.WITHOUT_GROUP,
            lag.OF_LAG_EXPORTER,
            lag.WORST_OF_LAG_EXPORTER,
        ),
    ),
)
"""Every table of a scrape except those of the process, which are named by prometheus-client."""
_COLUMNS: Final = (STRIMZI, CONFLUENT, KAFKA_EXPORTER, KAFKA_LAG_EXPORTER, NATIVE)
_PROCESS = """
## Process

As every Python process that prometheus-client describes, in every dialect: `process_cpu_seconds_total`,
`process_open_fds`, `process_max_fds`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds` (Linux), `python_info` and `python_gc_...`.
"""


def document() -> str:
    """The content of docs/metrics.md."""
    parts = [_HEAD]
    for title, tables in SECTIONS:
        parts.append(f"\n## {title}\n")
        for table in tables:
            parts += _rows(table)
    return "".join([*parts, _PROCESS])


def _rows(table: Table) -> Iterable[str]:
    labels = ", ".join(f"`{label}`" for label in table.labels) or "no labels"
    yield f"\n{labels[:1].upper()}{labels[1:]}:\n\n| what | type | names | from |\n|---|---|---|---|\n"
    for measure in table.measures:
        source = f"`{measure.source}`" if measure.source else ""
        yield f"| {measure.help} | {measure.kind} | {_names(measure)} | {source} |\n"


def _names(measure: Measure) -> str:
    """Each name once, with the dialects that have it."""
    dialects: dict[Name, list[str]] = {}
    for dialect in _COLUMNS:
        if dialect in measure.names:
            dialects.setdefault(measure.names[dialect], []).append(dialect)
    return "<br>".join(f"`{name.text}`{_labels(name)} {', '.join(which)}" for name, which in dialects.items())


def _labels(name: Name) -> str:
    return f" with {', '.join(f'`{label}`' for label in name.labels)}" if name.labels is not None else ""
