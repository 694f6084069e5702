"""The group coordinator as a part of the broker: machine, topic, records and settings put together.

(Kafka: ``GroupCoordinatorService``.)
"""

from collections.abc import Callable
from random import Random

from kpybroker.config.broker import BrokerConfig
from kpybroker.groups.coordinator import GroupCoordinator
from kpybroker.groups.events import ExpireOffsets, Loaded, PartitionsDeleted, TimersDue
from kpybroker.groups.record import decode
from kpybroker.groups.settings import GroupSettings
from kpybroker.hosting.coordinator import Coordinator
from kpybroker.hosting.kind import Kind
from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.replicas.replicas import Replicas

MINUTE_MS = 60_000


def group_coordinator(
    scheduler: Scheduler, replicas: Replicas, config: Callable[[], BrokerConfig], rng: Random
) -> Coordinator:
    """The coordinator of classic groups; ``config`` is asked anew whenever something is decided."""

    known: list[tuple[BrokerConfig, GroupSettings]] = []

    def settings() -> GroupSettings:
        now = config()
        if not known or known[0][0] is not now:
            known[:] = [(now, _settings(now))]
        return known[0][1]

    kind = Kind(
        topic=GROUP_OFFSETS_TOPIC,
        new_machine=lambda: GroupCoordinator(settings, rng),
        decode=decode,
        loaded=Loaded,
        timers_due=TimersDue,
        periodic=ExpireOffsets,
        period_ms=lambda: int(config()["offsets.retention.check.interval.ms"]),
        topics_deleted=PartitionsDeleted,
        codec=lambda: int(config()["offsets.topic.compression.codec"]),
        load_bytes=lambda: int(config()["offsets.load.buffer.size"]),
    )
    return Coordinator(kind, scheduler, replicas)


def _settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        offset_metadata_max_bytes=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * MINUTE_MS,
    )
