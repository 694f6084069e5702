"""The share coordinator as a part of the broker: machine, topic, records and settings put together.

(Kafka: ``ShareCoordinatorService``.) The machine is imported with the first shard: a node without share groups needs
none. Kafka cuts the log only while ``share.version`` is 1; here it is always cut.
"""

from collections.abc import Callable
from functools import partial

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.coordinators.kind import CoordinatorKind, Shard
from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.journal import OutgoingRequest
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from kpybroker.runtime.io.scheduler import Scheduler


def share_coordinator(
    scheduler: Scheduler, replicas: Replicas, config: Callable[[], BrokerConfig], image: Callable[[], MetadataImage]
) -> Shards:
    """Make the coordinator of share partitions. ``config`` and ``image`` are read for every decision."""

    def period_ms() -> int:
        return int(config()["share.coordinator.state.topic.prune.interval.ms"])

    return Shards(SHARE_GROUP_STATE_TOPIC, period_ms, lambda: _kind(replicas, config, image), scheduler, replicas)


def _kind(
    replicas: Replicas, config: Callable[[], BrokerConfig], image: Callable[[], MetadataImage]
) -> CoordinatorKind:
    from kpybroker.machines.share_coordinator.coordinator import ShareCoordinator
    from kpybroker.machines.share_coordinator.events import Prune, ShareTimersDue
    from kpybroker.machines.share_coordinator.record import decode
    from kpybroker.machines.share_coordinator.settings import ShareCoordinatorSettings

    def settings() -> ShareCoordinatorSettings:
        now = config()
        held = replicas.topics.get(SHARE_GROUP_STATE_TOPIC)
        return ShareCoordinatorSettings(
            updates_per_snapshot=now["share.coordinator.snapshot.update.records.per.snapshot"],
            cold_snapshot_interval_ms=now["share.coordinator.cold.partition.snapshot.interval.ms"],
            max_batch_bytes=held.validation.max_message_bytes if held else ShareCoordinatorSettings().max_batch_bytes,
        )

    def partition_count(topic_id: bytes) -> int:
        topic = image().topics_by_id.get(topic_id)
        return 0 if topic is None else len(topic.partitions)

    return CoordinatorKind(
        new_machine=lambda: ShareCoordinator(settings, partition_count),
        decode=decode,
        timers_due=ShareTimersDue,
        periodic=Prune,
        codec=lambda: int(config()["share.coordinator.state.topic.compression.codec"]),
        load_bytes=lambda: int(config()["share.coordinator.load.buffer.size"]),
        send=partial(_delete_below, replicas),
    )


def _delete_below(replicas: Replicas, shard: Shard, send: OutgoingRequest) -> None:
    """Move the start of the shard's log to the offset of a `DeleteBelow`, once that is on disk."""
    if shard.leads:
        replicas.move_log_start(shard.replica, send.message.offset)
