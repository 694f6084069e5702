"""Requests to many partitions whose logs must be created or opened first. That is done a few at a time.

A log takes a tenth of a millisecond, and a request can name thousands that were never used before. Not a handler.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, Final

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.repeated_partitions import Topics
from kpybroker.runtime.calls.call import Call
from kpystorage.errors import StorageError
from kpywire.produce import Records, TopicKey

FEW: Final = 16
"""The number of logs that a request may create or open in one piece."""


def unopened(broker: Context, places: Iterable[tuple[TopicKey, Iterable[int]]]) -> list[Replica]:
    """The partitions among these that this node leads, but whose leader role has not begun. Empty if they are few."""
    replicas = broker.replicas
    found: list[Replica] = []
    for topic, indexes in places:
        held = replicas.topic(topic)
        if held is not None:
            of_topic = map(held.replicas.get, indexes)
            found += [each for each in of_topic if each is not None and each.leader is None and each.is_led_here]
    return found if len(found) > FEW else []


def opens_many(broker: Context, topics: Topics) -> bool:
    """Return whether a Produce opens more logs than are opened in one piece."""
    replicas = broker.replicas
    count = 0
    for key, parts in topics:
        held = replicas.topic(key)
        if held is not None:
            of_topic = held.replicas
            for index, _records in parts:
                if index in of_topic and of_topic[index].leader is None and of_topic[index].is_led_here:
                    count += 1
    return count > FEW


def bring_up(replicas: Iterable[Replica]) -> Generator[None, None, None]:
    """Begin the leader roles of these. Errors are ignored: the request meets them again, and answers them."""
    for replica in replicas:
        if replica.leader is None and replica.is_led_here:
            with suppress(KafkaError, StorageError):
                replica.led()
            yield


def begin(call: Call, replicas: Iterable[Replica], then: Callable[[], Any]) -> Any:
    """Begin the leader roles of these, then return the answer of ``then``, or a `Pending` of it."""

    def work() -> Generator[None, None, Any]:
        yield from bring_up(replicas)
        return then()

    return call.peer.share(work())


def copied(topics: Topics) -> Topics:
    """A copy of the topics with their records, since other requests will be received into the records' buffer."""
    return [(key, [(index, _copy(records)) for index, records in parts]) for key, parts in topics]


def _copy(records: Records | None) -> Records | None:
    return memoryview(bytearray(records)) if isinstance(records, memoryview) else records
