"""The transaction coordinator as a part of the broker: machine, topic, records and settings put together.

(Kafka: ``TransactionCoordinator``, ``TransactionStateManager``.) The machine is imported with the first shard: a node
without transactions needs none.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.coordinators.kind import CoordinatorKind, Shard
from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.journal import OutgoingRequest
from kpybroker.machines.metadata.topic_name import TRANSACTION_STATE_TOPIC
from kpybroker.runtime.io.scheduler import Scheduler

if TYPE_CHECKING:
    from kpybroker.machines.transactions.settings import TransactionSettings

UNCOMPRESSED = 0


def transaction_coordinator(
    scheduler: Scheduler,
    replicas: Replicas,
    config: Callable[[], BrokerConfig],
    transaction_version: Callable[[], int],
    new_producer_id: Callable[[], int],
    send: Callable[[Shard, OutgoingRequest], None],
) -> Shards:
    """Make the coordinator of transactions. ``config`` and ``transaction_version`` are read for every decision.

    ``new_producer_id`` returns an unused producer id, -1 if there is none. ``send`` takes markers for other partitions.
    """

    def period_ms() -> int:
        return int(config()["transaction.remove.expired.transaction.cleanup.interval.ms"])

    def kind() -> CoordinatorKind:
        return _kind(replicas, config, transaction_version, new_producer_id, send)

    return Shards(TRANSACTION_STATE_TOPIC, period_ms, kind, scheduler, replicas)


def _kind(
    replicas: Replicas,
    config: Callable[[], BrokerConfig],
    transaction_version: Callable[[], int],
    new_producer_id: Callable[[], int],
    send: Callable[[Shard, OutgoingRequest], None],
) -> CoordinatorKind:
    from kpybroker.machines.transactions.coordinator import TransactionCoordinator
    from kpybroker.machines.transactions.events import ExpireTransactionalIds, TransactionTimersDue
    from kpybroker.machines.transactions.record import decode
    from kpybroker.machines.transactions.settings import TransactionSettings

    known: list[tuple[tuple[BrokerConfig, int, int], TransactionSettings]] = []

    def settings() -> TransactionSettings:
        held = replicas.topics.get(TRANSACTION_STATE_TOPIC)
        max_batch_bytes = held.validation.max_message_bytes if held else TransactionSettings().max_batch_bytes
        now = (config(), transaction_version(), max_batch_bytes)
        if not known or known[0][0] != now:
            known[:] = [(now, _settings(*now))]
        return known[0][1]

    return CoordinatorKind(
        new_machine=lambda: TransactionCoordinator(settings),
        decode=decode,
        timers_due=lambda timestamp_ms: TransactionTimersDue(timestamp_ms, new_producer_id()),
        periodic=ExpireTransactionalIds,
        codec=lambda: UNCOMPRESSED,
        load_bytes=lambda: int(config()["transaction.state.log.load.buffer.size"]),
        send=send,
    )


def _settings(config: BrokerConfig, level: int, max_batch_bytes: int) -> "TransactionSettings":
    from kpybroker.machines.transactions.settings import TransactionSettings

    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        timeout_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        transactional_id_expiration_ms=config["transactional.id.expiration.ms"],
        max_batch_bytes=max_batch_bytes,
        transaction_version=level,
    )
