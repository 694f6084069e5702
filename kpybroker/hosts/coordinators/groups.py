"""The group coordinator as a part of the broker: machine, topic, records and settings put together.

(Kafka: ``GroupCoordinatorService``.) The machine is imported with the first shard: a node without groups needs none.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.coordinators.followed_topics import FollowedTopics
from kpybroker.hosts.coordinators.kind import CoordinatorKind
from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.runtime.io.scheduler import Scheduler

if TYPE_CHECKING:
    from kpybroker.machines.groups.settings import GroupSettings

MINUTE_MS: Final = 60_000
COUNTS_FOR_MS: Final = 1_000.0
"""How long a count of the members of all shards is used: heartbeats are too many to count for each."""
_OF_A_GROUP: Final = {
    "consumer_session_timeout_ms": "consumer.session.timeout.ms",
    "consumer_heartbeat_interval_ms": "consumer.heartbeat.interval.ms",
    "consumer_assignment_interval_ms": "consumer.assignment.interval.ms",
    "share_session_timeout_ms": "share.session.timeout.ms",
    "share_heartbeat_interval_ms": "share.heartbeat.interval.ms",
    "share_assignment_interval_ms": "share.assignment.interval.ms",
    "streams_session_timeout_ms": "streams.session.timeout.ms",
    "streams_heartbeat_interval_ms": "streams.heartbeat.interval.ms",
    "streams_assignment_interval_ms": "streams.assignment.interval.ms",
    "streams_num_standby_replicas": "streams.num.standby.replicas",
    "streams_rack_aware_assignment_tags": "streams.rack.aware.assignment.tags",
    "streams_task_offset_interval_ms": "streams.task.offset.interval.ms",
    "streams_acceptable_recovery_lag": "streams.acceptable.recovery.lag",
    "streams_assignor_name": "streams.assignor.name",
    "streams_initial_rebalance_delay_ms": "streams.initial.rebalance.delay.ms",
}
"""The settings that a group may have of its own, with the names of their configs."""


def group_coordinator(
    scheduler: Scheduler, replicas: Replicas, config: Callable[[], BrokerConfig], rng: Random
) -> Shards:
    """Make the coordinator of groups. ``config`` is read for every decision."""

    def period_ms() -> int:
        return int(config()["offsets.retention.check.interval.ms"])

    counted_ms, counted = -COUNTS_FOR_MS, 0

    def members() -> int:
        nonlocal counted_ms, counted
        now_ms = scheduler.monotonic_ms()
        if now_ms >= counted_ms + COUNTS_FOR_MS:
            machines: Iterable[Any] = (shard.machine for shard in shards.shards.values())
            counted_ms, counted = now_ms, sum(machine.members() for machine in machines)
        return counted

    topics = FollowedTopics()
    kind = partial(_kind, config, topics, rng, members)
    shards = Shards(GROUP_OFFSETS_TOPIC, period_ms, kind, scheduler, replicas, topics.apply)
    return shards


def _kind(
    config: Callable[[], BrokerConfig], topics: FollowedTopics, rng: Random, members_of_node: Callable[[], int]
) -> CoordinatorKind:
    from kpybroker.machines.groups.coordinator import GroupCoordinator
    from kpybroker.machines.groups.counts import Counts
    from kpybroker.machines.groups.events import ExpireOffsets, GroupTimersDue
    from kpybroker.machines.groups.record import decode

    known: tuple[BrokerConfig, GroupSettings, int] | None = None
    counts = Counts()

    def current() -> "tuple[BrokerConfig, GroupSettings, int]":
        """The config, with the settings of groups and the codec of offsets that follow from it."""
        nonlocal known
        now = config()
        if known is None or known[0] is not now:
            known = (now, _settings(now, topics), int(now["offsets.topic.compression.codec"]))
        return known

    return CoordinatorKind(
        new_machine=lambda: GroupCoordinator(lambda: current()[1], topics.now, rng, counts, members_of_node),
        decode=decode,
        timers_due=GroupTimersDue,
        periodic=ExpireOffsets,
        codec=lambda: current()[2],
        load_bytes=lambda: int(config()["offsets.load.buffer.size"]),
    )


def _settings(config: BrokerConfig, topics: FollowedTopics) -> "GroupSettings":
    from kpybroker.config.group import effective, registered_assignors, within
    from kpybroker.machines.groups.settings import GroupSettings, assignor_names

    def overrides_of(group_id: str) -> Mapping[str, Any]:
        overrides = topics.group_configs(group_id)
        if not overrides:
            return overrides
        values: Mapping[str, Any] = effective(overrides, config)
        return {setting: within(config, name, values[name]) for setting, name in _OF_A_GROUP.items()}

    return GroupSettings(
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * MINUTE_MS,
        consumer_max_size=config["group.consumer.max.size"],
        consumer_session_timeout_ms=config["group.consumer.session.timeout.ms"],
        consumer_heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
        consumer_unsettled_heartbeat_interval_ms=config["kpybroker.group.consumer.unsettled.heartbeat.interval.ms"],
        consumer_assignment_interval_ms=config["group.consumer.assignment.interval.ms"],
        consumer_regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
        consumer_assignors=assignor_names(config["group.consumer.assignors"]),
        consumer_migration_policy=config["group.consumer.migration.policy"].lower(),
        share_max_size=config["group.share.max.size"],
        share_session_timeout_ms=config["group.share.session.timeout.ms"],
        share_heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
        share_unsettled_heartbeat_interval_ms=config["kpybroker.group.share.unsettled.heartbeat.interval.ms"],
        share_assignment_interval_ms=config["group.share.assignment.interval.ms"],
        share_initialize_retry_interval_ms=config["group.share.initialize.retry.interval.ms"],
        streams_max_size=config["group.streams.max.size"],
        streams_session_timeout_ms=config["group.streams.session.timeout.ms"],
        streams_heartbeat_interval_ms=config["group.streams.heartbeat.interval.ms"],
        streams_assignment_interval_ms=config["group.streams.assignment.interval.ms"],
        streams_num_standby_replicas=config["group.streams.num.standby.replicas"],
        streams_rack_aware_assignment_tags=tuple(config["group.streams.rack.aware.assignment.tags"]),
        streams_task_offset_interval_ms=config["group.streams.task.offset.interval.ms"],
        streams_acceptable_recovery_lag=config["group.streams.acceptable.recovery.lag"],
        streams_assignor_name=registered_assignors(config)[0],
        streams_description_max_bytes=config["kpybroker.group.streams.topology.description.max.bytes"],
        streams_initial_rebalance_delay_ms=config["group.streams.initial.rebalance.delay.ms"],
        overrides_of=overrides_of,
    )
