"""The transaction coordinator as a part of the broker: machine, topic, records and settings put together.

(Kafka: ``TransactionCoordinator``, ``TransactionStateManager``.)
"""

from collections.abc import Callable

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosting.coordinator import Coordinator
from kpybroker.hosting.kind import Kind
from kpybroker.hosting.shard import Shard
from kpybroker.io.scheduler import Scheduler
from kpybroker.journal import Send
from kpybroker.metadata.topic_name import TRANSACTION_STATE_TOPIC
from kpybroker.replicas.replicas import Replicas
from kpybroker.transactions.coordinator import TransactionCoordinator
from kpybroker.transactions.events import ExpireTransactionalIds, Loaded, PartitionsDeleted, TimersDue
from kpybroker.transactions.record import decode
from kpybroker.transactions.settings import TransactionSettings

UNCOMPRESSED = 0


def transaction_coordinator(
    scheduler: Scheduler,
    replicas: Replicas,
    config: Callable[[], BrokerConfig],
    transaction_version: Callable[[], int],
    new_producer_id: Callable[[], int],
    send: Callable[[Shard, Send], None],
) -> Coordinator:
    """The coordinator of transactions. ``config`` and ``transaction_version`` are asked anew whenever it decides.

    ``new_producer_id`` gives one that nobody has, -1 if there is none. ``send`` takes what is to be written into other
    partitions.
    """
    known: list[tuple[tuple[BrokerConfig, int, int], TransactionSettings]] = []

    def settings() -> TransactionSettings:
        held = replicas.topics.get(TRANSACTION_STATE_TOPIC)
        max_batch_bytes = held.validation.max_message_bytes if held else TransactionSettings().max_batch_bytes
        now = (config(), transaction_version(), max_batch_bytes)
        if not known or known[0][0] != now:
            known[:] = [(now, _settings(*now))]
        return known[0][1]

    kind = Kind(
        topic=TRANSACTION_STATE_TOPIC,
        new_machine=lambda: TransactionCoordinator(settings),
        decode=decode,
        loaded=Loaded,
        timers_due=lambda timestamp_ms: TimersDue(timestamp_ms, new_producer_id()),
        periodic=ExpireTransactionalIds,
        period_ms=lambda: int(config()["transaction.remove.expired.transaction.cleanup.interval.ms"]),
        topics_deleted=PartitionsDeleted,
        codec=lambda: UNCOMPRESSED,
        load_bytes=lambda: int(config()["transaction.state.log.load.buffer.size"]),
        send=send,
    )
    return Coordinator(kind, scheduler, replicas)


def _settings(config: BrokerConfig, level: int, max_batch_bytes: int) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        timeout_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        transactional_id_expiration_ms=config["transactional.id.expiration.ms"],
        max_batch_bytes=max_batch_bytes,
        transaction_version=level,
    )
