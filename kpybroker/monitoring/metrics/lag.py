"""The lag of groups and readers (`kpybroker.machines.lag`), as this node sees it: up to the high watermark, and in time
by the batch of the oldest record (its first timestamp; with LogAppendTime, the time of the append).

The time of a position never changes, so it is read once, by the offset index and one batch header, and kept for as
long as a group or reader is at that position; one below the start of the log counts as that. A position in the store
alone has the time of the oldest record on the disk until the store has answered.
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.groups.counts import DELETED, NOT_SHOWN, REFUSED, SHOWN, STORED
from kpybroker.machines.groups.group import CLASSIC_TYPE
from kpybroker.machines.groups.kinds import KINDS
from kpybroker.machines.lag import NO_TIME, first_ms, lag_in_ms, lag_in_records
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.monitoring.metrics.readers import (
    GroupFacts,
    ReaderPosition,
    Readers,
    committed_by,
    counts_of,
    facts_of,
    groups_of,
    names_of,
)
from kpybroker.monitoring.metrics.table import (
    COUNTER,
    GAUGE,
    KAFKA_EXPORTER,
    KAFKA_LAG_EXPORTER,
    NATIVE,
    Measure,
    MetricRow,
    Table,
    kafka,
    known_by,
)
from kpystorage.errors import DiskFailure, StorageError
from kpywire.batch import HEADER_BYTES, parse_header

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.server.listener import Server

LOOKUPS_PER_SLICE: Final = 50

LAG = Table(
    ("consumergroup", "topic", "partition"),
    (
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_consumergroup_current_offset", "Next offset that the group wants"),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_consumergroup_lag", "Records that it has not read"),
        known_by(NATIVE, GAUGE, "kpybroker_consumergroup_lag_seconds", "Age of the oldest record that it has not read"),
    ),
)
LAG_SUMS = Table(
    ("consumergroup", "topic"),
    (
        known_by(
            KAFKA_EXPORTER, GAUGE, "kafka_consumergroup_current_offset_sum", "Sum over the partitions of the topic"
        ),
        known_by(KAFKA_EXPORTER, GAUGE, "kafka_consumergroup_lag_sum", "Sum over the partitions of the topic"),
    ),
)
MEMBERS = Table(
    ("consumergroup",),
    (
        known_by(
            KAFKA_EXPORTER, GAUGE, "kafka_consumergroup_members", "Members of the group; of a reader, its client ids"
        ),
    ),
)
GENERATIONS = Table(
    ("consumergroup",),
    (known_by(NATIVE, GAUGE, "kpybroker_consumergroup_generation", "Rebalances that the group has been through"),),
)
WITHOUT_GROUP = Table(
    ("consumergroup", "client_id"),
    (known_by(NATIVE, GAUGE, "kpybroker_reader_info", "1 for each client id of a reader that is in no group"),),
)


def _lag_exporter(name: str, about: str) -> Measure:
    return known_by(KAFKA_LAG_EXPORTER, GAUGE, name, about)


OF_LAG_EXPORTER = Table(
    ("cluster_name", "group", "topic", "partition"),
    (
        _lag_exporter("kafka_consumergroup_group_offset", "Next offset that the group wants"),
        _lag_exporter("kafka_consumergroup_group_lag", "Records that it has not read"),
        _lag_exporter("kafka_consumergroup_group_lag_seconds", "Age of the oldest record that it has not read"),
    ),
)
"""Lag under the names of kafka-lag-exporter. It estimates the seconds by interpolation; here they are read.
``cluster_name`` is the id."""
WORST_OF_LAG_EXPORTER = Table(
    ("cluster_name", "group"),
    (
        _lag_exporter("kafka_consumergroup_group_max_lag", "Lag in records of the group's worst partition"),
        _lag_exporter("kafka_consumergroup_group_max_lag_seconds", "Lag in seconds of the group's worst partition"),
    ),
)

_BEAN = "kafka.coordinator.group:type=GroupMetadataManager"
STATES: Final = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


def _groups(name: str, about: str) -> Measure:
    text = f"kafka_coordinator_group_groupmetadatamanager_{name.lower()}"
    return kafka(GAUGE, text, about, f"{_BEAN},name={name}")


GROUPS = Table(
    (),
    (
        _groups("NumGroups", "Classic groups this node coordinates"),
        _groups("NumOffsets", "Positions they have committed"),
        *(_groups(f"NumGroups{state}", f"Classic groups in state {state}") for state in STATES),
        known_by(NATIVE, GAUGE, "kpybroker_positions_left_out", "Positions beyond kpybroker.metrics.max.partitions"),
    ),
)


_COORDINATOR = "kafka.server:type=group-coordinator-metrics"
_OTHERS: Final = [kind for kind in KINDS if kind.name != CLASSIC_TYPE]
"""The kinds whose metrics are alike. Those of classic groups are older."""


def _coordinated(name: str, about: str, label: str) -> Table:
    measure = kafka(
        GAUGE,
        f"kafka_server_groupcoordinatormetrics_{name}",
        about,
        _COORDINATOR,
        confluent=f"kafka_server_group_coordinator_metrics_{name}",
    )
    return Table((label,), (measure,))


GROUPS_BY_PROTOCOL = _coordinated("group_count", "Groups this node coordinates", "protocol")
GROUPS_IN_STATES = {
    kind.name: _coordinated(f"{kind.name}_group_count", f"{kind.title.capitalize()} in a state", "state")
    for kind in _OTHERS
}


def _counted(name: str, about: str) -> Measure:
    return kafka(
        COUNTER,
        f"kafka_server_groupcoordinatormetrics_{name}",
        about,
        _COORDINATOR,
        confluent=f"kafka_server_group_coordinator_metrics_{name}",
    )


REBALANCES = Table(
    (),
    (
        _counted("group_completed_rebalance_count", "Rebalances of classic groups that were completed"),
        *(_counted(f"{kind.name}_group_rebalance_count", f"Rebalances of {kind.title}") for kind in _OTHERS),
    ),
)

_DESCRIPTION = "streams_group_topology_description"
DESCRIBED: Final = (STORED, REFUSED, SHOWN, NOT_SHOWN, DELETED)
DESCRIPTIONS = Table(
    (),
    (
        _counted(f"{_DESCRIPTION}_set_success_count", "Descriptions of topologies that were kept"),
        _counted(f"{_DESCRIPTION}_set_error_count", "Descriptions of topologies that were refused"),
        _counted(f"{_DESCRIPTION}_get_success_count", "Descriptions of topologies that were looked up"),
        _counted(f"{_DESCRIPTION}_get_error_count", "Descriptions of topologies that an answer had no room for"),
        _counted(f"{_DESCRIPTION}_delete_success_count", "Descriptions of topologies that DeleteGroups ended"),
    ),
)


class PartitionLag(NamedTuple):
    """The lag of a group in one partition. ``seconds`` is None where the records have no timestamp."""

    position: ReaderPosition
    records: int
    seconds: float | None
    is_least: bool = False
    """Whether it is longer than these seconds: the store has not answered yet."""


class LagTables:
    """Reads positions and compares them with the logs."""

    def __init__(self, broker: "Broker", server: "Server", most_positions: int) -> None:
        self.broker = broker
        self.server = server
        self.most_positions = most_positions
        self._times: Times = {}

    def tables(self) -> Iterator[Table | None]:
        """The tables; None is a place to pause."""
        readers = Readers(self.broker, self.server)
        yield from readers.gather()
        facts: list[GroupFacts] = []
        positions: list[ReaderPosition] = []
        in_groups: set[str] = set()
        left_out = 0
        for group in groups_of(self.broker):
            facts.append(facts_of(group))
            in_groups |= names_of(group)
            for position in committed_by(group):
                if position is None:
                    yield None
                elif len(positions) < self.most_positions:
                    positions.append(position)
                else:
                    left_out += 1
            if len(facts) % LOOKUPS_PER_SLICE == 0:
                yield None
        alone = {name: ids for name, ids in readers.client_ids.items() if name not in in_groups}
        for (name, topic, partition), offset in readers.furthest.items():
            if name in alone:
                if len(positions) < self.most_positions:
                    positions.append(ReaderPosition(name, topic, partition, offset))
                else:
                    left_out += 1
        yield None
        lags: list[PartitionLag] = []
        yield from self._lags(positions, lags)
        yield from self._lag_tables(lags)
        members = {name: len(ids) for name, ids in alone.items()} | {
            each.name: each.of_members.members for each in facts
        }
        yield MEMBERS.with_rows([MetricRow((name,), (count,)) for name, count in members.items()])
        generations = [(each.name, each.of_members.generation) for each in facts]
        yield GENERATIONS.with_rows([MetricRow((name,), (each,)) for name, each in generations if each is not None])
        yield WITHOUT_GROUP.with_rows(
            [MetricRow((name, each), (1,)) for name, ids in alone.items() for each in sorted(ids)]
        )
        yield GROUPS.with_rows([MetricRow((), _summary(facts, left_out))])
        kinds = Counter(each.of_members.kind for each in facts)
        yield GROUPS_BY_PROTOCOL.with_rows([MetricRow((kind.name,), (kinds[kind.name],)) for kind in KINDS])
        states = Counter(each.of_members[:2] for each in facts)
        for kind in _OTHERS:
            rows = [MetricRow((written,), (states[kind.name, state],)) for state, written in kind.states.items()]
            yield GROUPS_IN_STATES[kind.name].with_rows(rows)
        counts = counts_of(self.broker)
        yield REBALANCES.with_rows([MetricRow((), [counts.rebalances.get(kind.name, 0) for kind in KINDS])])
        outcomes = [counts.descriptions.get(outcome, 0) for outcome in DESCRIBED]
        yield DESCRIPTIONS.with_rows([MetricRow((), outcomes)])

    def _lags(self, positions: list[ReaderPosition], lags: list[PartitionLag]) -> Iterator[None]:
        now_ms = self.broker.scheduler.now_ms()
        times: Times = {}
        for number, position in enumerate(positions):
            lag = lag_of(self.broker, position, now_ms, self._times, times)
            if lag is not None:
                lags.append(lag)
            if number % LOOKUPS_PER_SLICE == LOOKUPS_PER_SLICE - 1:
                yield None
        self._times = times

    def _lag_tables(self, lags: list[PartitionLag]) -> Iterator[Table | None]:
        rows = [
            MetricRow((p.name, p.topic, str(p.partition)), (p.offset, lag.records, lag.seconds))
            for lag in lags
            for p in (lag.position,)
        ]
        yield LAG.with_rows(rows)
        sums: dict[tuple[str, str], tuple[int, int]] = {}
        worst: dict[str, tuple[int, float]] = {}
        for position, records, seconds, _ in lags:
            offsets, lacking = sums.get((position.name, position.topic), (0, 0))
            sums[position.name, position.topic] = (offsets + position.offset, lacking + records)
            most, longest = worst.get(position.name, (0, 0.0))
            worst[position.name] = (max(most, records), max(longest, seconds or 0.0))
        yield LAG_SUMS.with_rows([MetricRow(labels, values) for labels, values in sums.items()])
        cluster = self.broker.image.cluster_id
        yield OF_LAG_EXPORTER.with_rows([MetricRow((cluster, *row.labels), row.values) for row in rows])
        yield WORST_OF_LAG_EXPORTER.with_rows([MetricRow((cluster, name), values) for name, values in worst.items()])


Times = dict[tuple[bytes, int, int], int]
"""Times of batches in ms, by topic id, partition and offset; `NO_TIME` for a batch that has none."""


def lag_of(broker: "Broker", position: ReaderPosition, now_ms: int, known: Times, seen: Times) -> PartitionLag | None:
    """The lag at a position; None if this node does not lead its partition. A time that is not ``known`` is read; each
    that is used is added to ``seen``."""
    is_least = False
    try:
        replica = broker.replicas.find(position.topic, position.partition)
        leader = replica.led()
        records = lag_in_records(leader.high_watermark.offset, position.offset)
        if records == 0:
            return PartitionLag(position, 0, 0.0)
        offset = max(position.offset, leader.log.log_start_offset)
        key = (replica.topic.id, replica.index, offset)
        time_ms = known.get(key)
        if time_ms is None and is_stored_alone(leader, offset):
            time_ms = stored_time(broker, replica, leader, offset)
            is_least = time_ms is None
        if time_ms is None:
            time_ms = time_of(leader, offset)
        if time_ms != NO_TIME and not is_least:  # where nothing is left, a record may come
            seen[key] = time_ms
    except KafkaError:
        return None
    except StorageError as error:
        if isinstance(error, DiskFailure):
            broker.replicas.directory_failed(error)
        return None
    late_ms = lag_in_ms(records, time_ms, now_ms)
    return PartitionLag(position, records, None if late_ms is None else late_ms / 1000, is_least)


def is_stored_alone(leader: PartitionLeader, offset: int) -> bool:
    """Whether the first record at or behind an offset is in the store and not on the disk."""
    log = leader.log
    return max(offset, log.log_start_offset) < log.local_log_start_offset


def stored_time(broker: "Broker", replica: Replica, leader: PartitionLeader, offset: int) -> int | None:
    """The time of the first batch at or behind an offset, by the store; None until it has answered."""
    if broker.remote_log is None:
        return None
    return broker.remote_log.first_time(replica, leader, max(offset, leader.log.log_start_offset))


def time_of(leader: PartitionLeader, offset: int) -> int:
    """The time of the first batch on the disk at or behind ``offset``, in ms; `NO_TIME` if there is none or it has no
    time.

    Raises:
        DiskFailure: its file cannot be read.
    """
    log = leader.log
    place = log.position_of(max(offset, log.local_log_start_offset))
    if place.offset >= leader.high_watermark.offset:
        return NO_TIME
    for segment in reversed(log.segments):
        if segment.base_offset == place.segment_base_offset:
            with log.directory.failing():
                header = parse_header(segment.log.pread(HEADER_BYTES, place.position))
            return first_ms(header)
    return NO_TIME


def _summary(facts: list[GroupFacts], left_out: int) -> list[int]:
    states = [each.of_members.state for each in facts if each.of_members.kind == CLASSIC_TYPE]
    by_state = [states.count(state) for state in STATES]
    return [len(states), sum([each.offsets for each in facts]), *by_state, left_out]
