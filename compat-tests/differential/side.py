"""One of the two brokers in one sequence: a connection per actor, requests in flight, what came of each.

It sends and receives, and judges nothing. An actor has one request in flight at most; a request that finds the one
before it still waiting is not sent, and that is its outcome.
"""

import select
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from differential.coverage import Reached, codes_in
from differential.learning import Learnings
from differential.normalisation import View, normalised
from differential.steps import Call, resolved
from kpywire import api
from kpywire.messages.api_versions import ApiVersionsRequest
from support.raw_client import RawClient, api_key_of
from support.waiting import NotInTimeError, eventually

ANSWER_WITHIN_S = 20.0
CLOSED = "closed the connection"
SILENT = f"no answer within {ANSWER_WITHIN_S:g} s"
BUSY = "not sent: the request before it still waits"
WAITING = "waits"
ACCEPTED = "taken without an answer"


Connect = Callable[[int], RawClient]
"""Opens a connection to a broker, which its port names."""


def connect_plainly(port: int) -> RawClient:
    """A connection without TLS and without a login."""
    return RawClient(port, timeout_s=ANSWER_WITHIN_S)


class Reach(NamedTuple):
    """The ways to a broker: that of the actors of a sequence, and that of the suite, which may ask everything."""

    as_actor: Connect = connect_plainly
    as_suite: Connect = connect_plainly


PLAINLY: Final = Reach()


class InFlight(NamedTuple):
    step: int
    key: int
    version: int
    request: Any


class Side:
    """``port``: the broker's; ``prefix``, ``began_ms``: of the sequence; ``reach``: how it is connected to."""

    def __init__(self, port: int, prefix: str, began_ms: int, reach: Reach) -> None:
        self.port = port
        self._reach = reach
        self.prefix = prefix
        self.began_ms = began_ms
        self.learned = Learnings(prefix)
        self.clients: dict[str, RawClient] = {}
        self.in_flight: dict[str, InFlight] = {}
        self.outcomes: dict[int, Any] = {}
        """By step: the request that was answered and later the normalised answer, or one of the texts above."""
        self.answers: dict[int, Any] = {}
        """By step: the answer as it came."""
        self.reached: Reached = set()

    def begin(self, step: int, call: Call) -> None:
        """Send a request."""
        if call.actor in self.in_flight:
            self.outcomes[step] = BUSY
            return
        request = resolved(call.request, self.learned.memory, self.prefix, self.began_ms)
        client = self.clients.get(call.actor)
        if client is None:
            client = self.clients[call.actor] = self._reach.as_actor(self.port)
        key = api_key_of(request)
        try:
            client.send(request, call.version)
            if key == api.PRODUCE and request.acks == 0:
                client.call(ApiVersionsRequest(), 0)
                self.outcomes[step] = ACCEPTED
                return
        except OSError:
            self._closed(call.actor)
            self.outcomes[step] = CLOSED
            return
        self.in_flight[call.actor] = InFlight(step, key, call.version, request)

    def poll(self, actor: str, timeout_s: float) -> bool:
        """Take the actor's answer if it comes in time; whether nothing is in flight any more."""
        waiting = self.in_flight.get(actor)
        if waiting is None:
            return True
        client = self.clients[actor]
        readable, _, _ = select.select([client.sock], [], [], timeout_s)
        if not readable:
            return False
        try:
            answer = client.receive(waiting.key, waiting.version)
        except OSError:
            self._closed(actor)
            self.outcomes[waiting.step] = CLOSED
            return True
        del self.in_flight[actor]
        self.learned.learn(actor, waiting.key, waiting.request, answer)
        self.reached |= {(waiting.key, waiting.version, code) for code in codes_in(answer)}
        self.answers[waiting.step] = answer
        self.outcomes[waiting.step] = waiting
        return True

    def outcome(self, step: int) -> Any:
        """The outcome of a step, normalised by all that was learned until now: answers name members who hear later."""
        known = self.outcomes[step]
        if isinstance(known, InFlight):
            view = View(known.key, known.version, self.prefix, self.began_ms, self.port, self.learned.symbols)
            known = self.outcomes[step] = normalised(self.answers[step], view)
        return known

    def give_up(self, actor: str, outcome: str) -> None:
        """Wait no longer for this actor's answer; a late one goes with its connection."""
        waiting = self.in_flight.get(actor)
        if waiting is not None:
            self.outcomes[waiting.step] = outcome
        self._closed(actor)

    def close(self) -> None:
        for actor in list(self.clients):
            self.give_up(actor, WAITING)

    def call(self, request: Any, version: int) -> Any:
        """Ask something that is no step, on a connection of its own."""
        client = self.clients.get("")
        if client is None:
            client = self.clients[""] = self._reach.as_suite(self.port)
        return client.call(request, version)

    def _closed(self, actor: str) -> None:
        self.in_flight.pop(actor, None)
        client = self.clients.pop(actor, None)
        if client is not None:
            client.sock.close()


def in_time(condition: Any, within_s: float = 10.0) -> bool:
    """Whether the condition comes true in time. If it does not, that is a difference, not a failure."""
    try:
        eventually(condition, within_s=within_s, every_s=0.002)
    except NotInTimeError:
        return False
    return True
