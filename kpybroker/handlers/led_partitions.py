"""A question to the leader of a partition, and the refusal where somebody or something keeps it from answering.

Not a handler: those that answer partition by partition use it. A disk that fails takes its directory offline here.
"""

from collections.abc import Callable
from typing import TypeVar

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Context
from kpybroker.partition.leader import Leader
from kpybroker.partition.role import Role
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
    return _ask(broker, topic, index, lambda replica: question(replica, replica.led()), refuse)


def ask_any_role(
    broker: Context,
    topic: str,
    index: int,
    question: Callable[[Role], Answer],
    refuse: Callable[[int, str | None], Answer],
) -> Answer:
    """The same, of a follower too."""
    return _ask(broker, topic, index, lambda replica: question(replica.held()), refuse)


def _ask(
    broker: Context,
    topic: str,
    index: int,
    question: Callable[[Replica], Answer],
    refuse: Callable[[int, str | None], Answer],
) -> Answer:
    try:
        return question(broker.replicas.find(topic, index))
    except KafkaError as error:
        return refuse(error.code, error.message)
    except StorageError as error:
        if isinstance(error, DiskFailure):
            broker.replicas.directory_failed(error)
        return refuse(error.error_code, None)
