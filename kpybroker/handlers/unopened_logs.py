"""Requests to many partitions whose logs have to be made or opened first: a few at a time, before they are handled.

A log takes a tenth of a millisecond, and a request can name thousands that nobody has used before. Not a handler.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.replicas.replica import Replica
from kpybroker.server.frames import CloseConnection
from kpybroker.server.pending import Pending
from kpystorage.errors import StorageError
from kpywire.produce import Answers, Produce, TopicKey
from kpywire.produce_hints import HintedAnswers

FEW = 16
"""So many logs are made at once, by the request that needs them."""

MOST_AT_ONCE = 256
"""To so many logs one Produce appends in one piece, if all of them are open."""

Serve = Callable[[Context, Any, Call], Any]


def unopened(broker: Context, places: Iterable[tuple[TopicKey, Iterable[int]]]) -> list[Replica]:
    """The partitions among these whose leader's role begins with this request; none where they are few."""
    replicas = broker.replicas
    found: list[Replica] = []
    for topic, indexes in places:
        held = replicas.by_id.get(topic) if isinstance(topic, bytes) else replicas.topics.get(topic)
        if held is not None:
            of_topic = map(held.replicas.get, indexes)
            found += [each for each in of_topic if each is not None and each.leader is None and each.is_led_here]
    return found if len(found) > FEW else []


def bring_up(replicas: Iterable[Replica]) -> Generator[None, None, None]:
    """Take up these roles. What goes wrong goes wrong again for the request itself, which answers it."""
    for replica in replicas:
        if replica.leader is None and replica.is_led_here:
            with suppress(KafkaError, StorageError):
                replica.led()
            yield


def begin(call: Call, replicas: Iterable[Replica], then: Callable[[], Any]) -> Any:
    """What ``then`` answers, or a `Pending` of it, when these roles are taken up."""

    def work() -> Generator[None, None, Any]:
        yield from bring_up(replicas)
        return then()

    return call.connection.server.slices.begin(work(), call.connection)


def produce(broker: Context, request: Produce, call: Call, replicas: Iterable[Replica], serve: Serve) -> Any:
    """The answer of a Produce to these and others, or a `Pending` of it: appended to a few partitions at a time."""
    return call.connection.server.slices.begin(_produce(broker, request, call, replicas, serve), call.connection)


def _produce(
    broker: Context, request: Produce, call: Call, replicas: Iterable[Replica], serve: Serve
) -> Generator[None, None, Any]:
    # Others will receive into the buffer that the records lie in.
    request = request._replace(
        topics=[(key, [(index, _copy(records)) for index, records in parts]) for key, parts in request.topics]
    )
    turned: list[bool] = []
    broker.scheduler.call_soon(turned.append, True)
    yield from bring_up(replicas)
    while not turned:
        yield  # the turn that it came in writes its appends together, and this one takes several
    try:
        if request.transactional_id is not None or _names_one_twice(request):
            return serve(broker, request, call)
        return (yield from _in_pieces(broker, request, call, serve))
    except CloseConnection as why:
        call.connection.give_up(str(why))
        return None


def _copy(records: memoryview | None) -> memoryview | None:
    return None if records is None else memoryview(bytearray(records))


def _names_one_twice(request: Produce) -> bool:
    places = [(key, index) for key, parts in request.topics for index, _ in parts]
    return len(set(places)) < len(places)


def _in_pieces(broker: Context, request: Produce, call: Call, serve: Serve) -> Generator[None, None, Any]:
    answers = _Pieces()
    for key, parts in request.topics:
        for first in range(0, len(parts), FEW):
            answers.add(serve(broker, request._replace(topics=[(key, parts[first : first + FEW])]), call))
            yield
    return None if request.acks == 0 else answers.whole()


class _Pieces:
    """The answers to the pieces of one Produce, some of which may come later."""

    def __init__(self) -> None:
        self._pieces: list[Answers] = []
        self._missing = 0
        self._response: Pending | None = None

    def add(self, piece: Answers | Pending | None) -> None:
        if isinstance(piece, Pending):
            place = len(self._pieces)
            self._pieces.append(())
            self._missing += 1
            piece.when_resolved(lambda late: self._came(place, late))
        elif piece is not None:
            self._pieces.append(piece)

    def _came(self, place: int, late: Answers) -> None:
        self._pieces[place] = late
        self._missing -= 1
        if not self._missing and self._response is not None:
            self._response.resolve(self._merged())

    def whole(self) -> Answers | Pending:
        """After the last piece."""
        if not self._missing:
            return self._merged()
        self._response = Pending()
        return self._response

    def _merged(self) -> Answers:
        merged: dict[TopicKey, list[bytes]] = {}
        for piece in self._pieces:
            for key, answers in piece:
                merged.setdefault(key, []).extend(answers)
        nodes = [node for piece in self._pieces if isinstance(piece, HintedAnswers) for node in piece.node_endpoints]
        return HintedAnswers(list(merged.items()), list({node.node_id: node for node in nodes}.values()))
