"""Requests to many partitions whose logs must be created or opened first. That is done a few at a time.

A log takes a tenth of a millisecond, and a request can name thousands that were never used before. Not a handler.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, Final

from kpybroker.calls.call import Call
from kpybroker.calls.close_connection import CloseConnection
from kpybroker.calls.gathered import gathered
from kpybroker.calls.pending import Pending
from kpybroker.errors import KafkaError
from kpybroker.replicas.replica import Replica
from kpybroker.serving.context import Context
from kpybroker.serving.repeated_partitions import Topics
from kpystorage.errors import StorageError
from kpywire.produce import Answers, Produce, Records, TopicKey
from kpywire.produce_hints import HintedAnswers

FEW: Final = 16
"""The number of logs that a request may create or open in one piece."""

MOST_AT_ONCE = 256
"""The number of logs to which one Produce appends in one piece, if all of them are open."""

Serve = Callable[[Context, Any, Call], Any]


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


def produce(broker: Context, request: Produce, call: Call, replicas: Iterable[Replica], serve: Serve) -> Any:
    """Open these logs, then append to a few partitions at a time. Return the answer of the Produce, or a `Pending`."""
    return call.peer.share(_produce(broker, request, call, replicas, serve))


def _produce(
    broker: Context, request: Produce, call: Call, replicas: Iterable[Replica], serve: Serve
) -> Generator[None, None, Any]:
    request = request._replace(topics=copied(request.topics))
    turned: list[None] = []
    broker.scheduler.call_soon(turned.append, None)
    yield from bring_up(replicas)
    while not turned:
        yield  # the turn that it came in writes its appends together, and this one takes several
    try:
        if request.transactional_id is not None or _names_one_twice(request):
            return serve(broker, request, call)
        return (yield from _in_pieces(broker, request, call, serve))
    except CloseConnection as why:
        call.peer.give_up(str(why))
        return None


def copied(topics: Topics) -> Topics:
    """A copy of the topics with their records, since other requests will be received into the records' buffer."""
    return [(key, [(index, _copy(records)) for index, records in parts]) for key, parts in topics]


def _copy(records: Records | None) -> Records | None:
    return memoryview(bytearray(records)) if isinstance(records, memoryview) else records


def _names_one_twice(request: Produce) -> bool:
    places = [(key, index) for key, parts in request.topics for index, _ in parts]
    return len(set(places)) < len(places)


def _in_pieces(broker: Context, request: Produce, call: Call, serve: Serve) -> Generator[None, None, Any]:
    pieces: list[Answers | Pending | None] = []
    for key, parts in request.topics:
        for first in range(0, len(parts), FEW):
            pieces.append(serve(broker, request._replace(topics=[(key, parts[first : first + FEW])]), call))
            yield
        if not parts:
            pieces.append([(key, [])])
            yield
    return None if request.acks == 0 else gathered(pieces, _merged)


def _merged(pieces: list[Answers]) -> Answers:
    """The answers of all pieces, merged into one."""
    merged: dict[TopicKey, list[bytes]] = {}
    for piece in pieces:
        for key, answers in piece:
            merged.setdefault(key, []).extend(answers)
    nodes = [node for piece in pieces if isinstance(piece, HintedAnswers) for node in piece.node_endpoints]
    return HintedAnswers(list(merged.items()), list({node.node_id: node for node in nodes}.values()))
