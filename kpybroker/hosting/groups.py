"""The group coordinator as a part of the broker: machine, topic, records and settings put together.

(Kafka: ``GroupCoordinatorService``.) The machine is imported with the first shard: a node without groups needs none.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.groups.topic_view import TopicView
from kpybroker.hosting.followed_topics import FollowedTopics
from kpybroker.hosting.kind import Kind
from kpybroker.hosting.shards import Shards
from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.replicas.replicas import Replicas

if TYPE_CHECKING:
    from kpybroker.groups.settings import GroupSettings

MINUTE_MS = 60_000


def group_coordinator(
    scheduler: Scheduler, replicas: Replicas, config: Callable[[], BrokerConfig], rng: Random
) -> Shards:
    """Make the coordinator of classic groups. ``config`` is read for every decision."""

    def period_ms() -> int:
        return int(config()["offsets.retention.check.interval.ms"])

    topics = FollowedTopics()
    return Shards(
        GROUP_OFFSETS_TOPIC, period_ms, lambda: _kind(config, topics.now, rng), scheduler, replicas, topics.apply
    )


def _kind(config: Callable[[], BrokerConfig], topics: Callable[[], TopicView], rng: Random) -> Kind:
    from kpybroker.groups.coordinator import GroupCoordinator
    from kpybroker.groups.events import ExpireOffsets, TimersDue
    from kpybroker.groups.record import decode

    known: list[tuple[BrokerConfig, GroupSettings]] = []

    def settings() -> "GroupSettings":
        now = config()
        if not known or known[0][0] is not now:
            known[:] = [(now, _settings(now))]
        return known[0][1]

    return Kind(
        new_machine=lambda: GroupCoordinator(settings, topics, rng),
        decode=decode,
        timers_due=TimersDue,
        periodic=ExpireOffsets,
        codec=lambda: int(config()["offsets.topic.compression.codec"]),
        load_bytes=lambda: int(config()["offsets.load.buffer.size"]),
    )


def _settings(config: BrokerConfig) -> "GroupSettings":
    from kpybroker.groups.settings import GroupSettings

    return GroupSettings(
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * MINUTE_MS,
    )
