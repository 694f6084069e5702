"""Requests rewritten for an older version that cannot carry them, as Kafka's own ``Builder`` does it.

Not here: fields that an older version silently leaves out, or cannot be sent without; the messages define those.

Invariant: the request itself is not changed, since it may be sent to another node in another version.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, Final

from kpywire.messages.alter_partition import AlterPartitionRequest
from kpywire.messages.broker_registration import BrokerRegistrationRequest

_MEMBERS_HAVE_EPOCHS: Final = 3
"""The first version of AlterPartition whose members have broker epochs (KIP-903)."""
_LEVELS_FROM_ZERO: Final = 4
"""The first version of BrokerRegistration in which controllers understand features that begin at 0 (KAFKA-17492)."""


def as_of(request: Any, version: int) -> Any:
    """The request in the form in which it is sent in ``version``."""
    rewrite = _REWRITES.get(type(request))
    return request if rewrite is None else rewrite(request, version)


def _alter_partition(request: AlterPartitionRequest, version: int) -> AlterPartitionRequest:
    if version >= _MEMBERS_HAVE_EPOCHS:
        return request
    older = copy(request)
    older.topics = []
    for topic in request.topics:
        named = copy(topic)
        named.partitions = []
        for partition in topic.partitions:
            without_epochs = copy(partition)
            without_epochs.new_isr = [member.broker_id for member in partition.new_isr_with_epochs]
            without_epochs.new_isr_with_epochs = []
            named.partitions.append(without_epochs)
        older.topics.append(named)
    return older


def _broker_registration(request: BrokerRegistrationRequest, version: int) -> BrokerRegistrationRequest:
    if version >= _LEVELS_FROM_ZERO:
        return request
    older = copy(request)
    older.features = [feature for feature in request.features if feature.min_supported_version > 0]
    return older


_REWRITES: Final[dict[type, Callable[[Any, int], Any]]] = {
    AlterPartitionRequest: _alter_partition,
    BrokerRegistrationRequest: _broker_registration,
}
