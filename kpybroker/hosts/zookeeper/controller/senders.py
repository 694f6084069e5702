"""The requests of the controller on their way: an ordered queue for each broker (Kafka's ``ControllerChannelManager``).

One request of a queue is under way. It is sent again until it is answered, or its broker has gone.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kpybroker.hosts.network.peer import NoResponse
from kpybroker.hosts.network.peers import Peers
from kpybroker.machines.zookeeper.controller import events, messages
from kpybroker.machines.zookeeper.controller.batch import BrokerRequest, LeaderAndIsr, StopReplica
from kpybroker.machines.zookeeper.controller.context import LiveBroker
from kpybroker.machines.zookeeper.tree.brokers import ZkEndpoint
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import api

log = logging.getLogger("kpybroker.zookeeper")

RETRY_MS: Final = 100.0
_NEWEST: Final = {
    api.LEADER_AND_ISR: messages.LEADER_AND_ISR_VERSION,
    api.STOP_REPLICA: messages.STOP_REPLICA_VERSION,
    api.UPDATE_METADATA: messages.UPDATE_METADATA_VERSION,
}


class Senders:
    """The queues of all brokers of a reign. ``listener`` is the one by which brokers reach one another."""

    def __init__(
        self,
        scheduler: Scheduler,
        peers: Peers,
        controller_id: int,
        listener: str,
        answered: Callable[[events.Event], object] | None = None,
    ) -> None:
        """``answered`` is called with the answers that are events for the controller."""
        self._on_answer = answered
        self._scheduler = scheduler
        self._peers = peers
        self._controller_id = controller_id
        self._listener = listener
        self._queues: dict[tuple[int, int], _Queue] = {}
        """By broker id and epoch: a broker that came back as another process has another queue."""

    def follow(self, brokers: Mapping[int, LiveBroker]) -> None:
        """Open queues to brokers that have come, and close those to brokers that have gone."""
        current = {(broker_id, broker.epoch): broker for broker_id, broker in brokers.items()}
        for gone in [each for each in self._queues if each not in current]:
            self._queues.pop(gone).close()
        for key, broker in current.items():
            endpoint = next((each for each in broker.registration.endpoints if each.listener == self._listener), None)
            if key in self._queues:
                self._queues[key].endpoint = endpoint
            else:
                self._queues[key] = _Queue(self._scheduler, self._peers, endpoint, self._answered)
        self._peers.keep({(each.endpoint.host, each.endpoint.port) for each in self._queues.values() if each.endpoint})

    def send(self, requests: Iterable[BrokerRequest]) -> None:
        """Add requests to the queues of their receivers."""
        for request in requests:
            queue = self._queues.get((request.receiver, request.broker_epoch))
            if queue is not None:
                queue.add(request, messages.message_of(request, self._controller_id, self._listener))

    def command(self, brokers: Mapping[int, LiveBroker], requests: Iterable[BrokerRequest]) -> None:
        """Send requests to brokers that may have changed."""
        self.follow(brokers)
        self.send(requests)

    def close(self) -> None:
        """Send nothing more."""
        self.follow({})

    def _answered(self, sent: BrokerRequest, answer: Any) -> None:
        event = None
        if isinstance(sent, LeaderAndIsr):
            event = messages.event_of_leader_and_isr(sent.receiver, sent, answer)
        elif isinstance(sent, StopReplica):
            event = messages.event_of_stop_replica(sent.receiver, sent, answer)
        if event is not None and self._on_answer is not None:
            self._on_answer(event)


class _Queue:
    def __init__(
        self,
        scheduler: Scheduler,
        peers: Peers,
        endpoint: ZkEndpoint | None,
        answered: Callable[[BrokerRequest, Any], object],
    ) -> None:
        self.endpoint = endpoint
        self._scheduler = scheduler
        self._peers = peers
        self._answered = answered
        self._waiting: deque[tuple[BrokerRequest, Any]] = deque()
        self._is_busy = False
        self._is_closed = False
        self._retry: Timer | None = None
        self._failures = 0

    def add(self, request: BrokerRequest, message: Any) -> None:
        self._waiting.append((request, message))
        if not self._is_busy:
            self._send_next()

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        if self._retry is not None:
            self._retry.cancel()

    def _send_next(self) -> None:
        self._is_busy = bool(self._waiting) and not self._is_closed
        if not self._is_busy or self.endpoint is None:
            return
        _, message = self._waiting[0]
        peer = self._peers.at(self.endpoint.host, self.endpoint.port)
        peer.send(message, self._done, newest=_NEWEST[type(message).KEY])

    def _done(self, answer: Any) -> None:
        if self._is_closed:
            return
        if isinstance(answer, NoResponse):
            self._failures += 1
            if self._failures == 1:
                log.warning("The controller cannot reach %s: %s; it tries again", self.endpoint, answer.reason)
            self._retry = self._scheduler.call_later(RETRY_MS, self._send_next)
            return
        self._failures = 0
        request, _ = self._waiting.popleft()
        self._answered(request, answer)
        self._send_next()
