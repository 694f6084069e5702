"""The topics that consumers subscribe to, read from the opaque metadata of their joins (Kafka:
``ConsumerProtocol``)."""

from collections.abc import Iterable

from kpywire.codec import decode
from kpywire.errors import Malformed
from kpywire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

_VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics in all of these subscriptions; None if one of them is not a valid subscription.

    As in Kafka, newer versions are read as the first: their additional fields come after it.
    """
    topics: set[str] = set()
    for subscription in set(subscriptions):
        if int.from_bytes(subscription[:_VERSION_BYTES], "big", signed=True) < 0:
            return None
        try:
            topics.update(decode(ConsumerProtocolSubscription, 0, subscription, _VERSION_BYTES).topics)
        except Malformed:
            return None
    return frozenset(topics)
