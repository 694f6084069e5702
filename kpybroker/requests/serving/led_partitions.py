"""A question to the leader of a partition, and the refusal if the leader cannot answer it.

Used by the handlers that answer partition by partition. If a disk fails meanwhile, its directory is taken offline.
"""

from collections.abc import Callable
from typing import TypeVar

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.role import Role
from kpybroker.requests.serving.context import Context
from kpystorage.errors import StorageError

Answer = TypeVar("Answer")


def ask_leader(
    broker: Context,
    topic: str,
    index: int,
    question: Callable[[Replica, PartitionLeader], Answer],
    refuse: Callable[[int, str | None], Answer],
) -> Answer:
    """Return the result of ``question`` for the leader of a partition, or that of ``refuse`` for an error."""
    return _ask(broker, topic, index, lambda replica: question(replica, replica.led()), refuse)


def ask_any_role(
    broker: Context,
    topic: str,
    index: int,
    question: Callable[[Role], Answer],
    refuse: Callable[[int, str | None], Answer],
) -> Answer:
    """Like `ask_leader`, but a follower answers too."""
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
        return refuse(broker.replicas.code_of(error), None)
