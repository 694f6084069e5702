"""A question to the leader of a partition, and the refusal where somebody or something keeps it from answering.

Not a handler: those that answer partition by partition use it. A disk that fails takes its directory offline here.
"""

from collections.abc import Callable
from typing import TypeVar

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Context
from kpybroker.partition.leader import Leader
from kpybroker.replicas.replica import Replica
from kpystorage.errors import DiskFailure, StorageError

Answer = TypeVar("Answer")


def ask_leader(
    broker: Context,
    topic: str,
    index: int,
    question: Callable[[Replica, Leader], Answer],
    refuse: Callable[[int, str | None], Answer],
) -> Answer:
    """What ``question`` finds out from the leader of a partition, or what ``refuse`` makes of code and message."""
    try:
        replica = broker.replicas.find(topic, index)
        return question(replica, replica.led())
    except KafkaError as error:
        return refuse(error.code, error.message)
    except StorageError as error:
        if isinstance(error, DiskFailure):
            broker.replicas.directory_failed(error)
        return refuse(error.error_code, None)
