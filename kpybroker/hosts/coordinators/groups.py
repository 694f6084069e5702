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


def own_settings() -> dict[str, str]:
    """The settings that a group may have of its own, with the names of their configs."""
    from kpybroker.config.group_configs import GROUP_CONFIGS
    from kpybroker.machines.groups.settings import GroupSettings

    names = {setting: setting.replace("_", ".") for setting in GroupSettings._fields}
    return {setting: name for setting, name in names.items() if name in GROUP_CONFIGS}


def _settings(config: BrokerConfig, topics: FollowedTopics) -> "GroupSettings":
    """The settings of all groups: each is the config of its name, with ``group.`` before it, except for these."""
    from kpybroker.config.group import effective, registered_assignors, within
    from kpybroker.machines.groups.settings import GroupSettings, assignor_names

    own = own_settings()

    def overrides_of(group_id: str) -> Mapping[str, Any]:
        overrides = topics.group_configs(group_id)
        if not overrides:
            return overrides
        values: Mapping[str, Any] = effective(overrides, config)
        return {setting: within(config, name, values[name]) for setting, name in own.items()}

    others: dict[str, Any] = {
        "offset_metadata_max_bytes": config["offset.metadata.max.bytes"],
        "offsets_retention_ms": config["offsets.retention.minutes"] * MINUTE_MS,
        "consumer_unsettled_heartbeat_interval_ms": config["kpybroker.group.consumer.unsettled.heartbeat.interval.ms"],
        "consumer_assignors": assignor_names(config["group.consumer.assignors"]),
        "consumer_migration_policy": config["group.consumer.migration.policy"].lower(),
        "share_unsettled_heartbeat_interval_ms": config["kpybroker.group.share.unsettled.heartbeat.interval.ms"],
        "share_assignor": "simple",
        "streams_rack_aware_assignment_tags": tuple(config["group.streams.rack.aware.assignment.tags"]),
        "streams_assignor_name": registered_assignors(config)[0],
        "streams_description_max_bytes": config["kpybroker.group.streams.topology.description.max.bytes"],
        "overrides_of": overrides_of,
    }
    plain = [setting for setting in GroupSettings._fields if setting not in others]
    return GroupSettings(**others, **{each: config[f"group.{each.replace('_', '.')}"] for each in plain})
