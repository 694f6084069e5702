"""The requests of the controller, in the order in which they came.

A request may name topics whose configs are not known yet. They are read first, so that a log is made with the right
ones; the requests behind it wait.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kpybroker.calls.pending import Pending
from kpybroker.zookeeper.broker.controller_requests import ControllerRequests, Decision
from kpybroker.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.zookeeper.broker.tasks import Begin
from kpybroker.zookeeper.client.client import NoAnswer
from kpywire.messages.leader_and_isr import LeaderAndIsrRequest
from kpywire.messages.stop_replica import StopReplicaRequest
from kpywire.messages.update_metadata import UpdateMetadataRequest

log = logging.getLogger("kpybroker.zookeeper")


class Orders:
    """The requests of the controller that this broker has not answered yet."""

    def __init__(
        self,
        requests: ControllerRequests,
        metadata: ZooKeeperMetadata,
        read_configs: Callable[[Iterable[str]], Awaitable[None]],
        delete_log: Callable[[str, int], object],
        begin: Begin,
        changed: Callable[[], object],
        done: Callable[[], object],
    ) -> None:
        """``read_configs`` reads those of topics. ``delete_log`` deletes a log that belongs to no replica. ``changed``
        is called when another controller may rule, ``done`` after each request."""
        self._requests = requests
        self._metadata = metadata
        self._read_configs = read_configs
        self._delete_log = delete_log
        self._begin = begin
        self._waiting: deque[tuple[Any, Pending]] = deque()
        self._is_working = False
        self._changed = changed
        self._done = done

    def take(self, request: Any) -> Any:
        """The answer to a request: at once, or a `Pending` if configs must be read first."""
        if not self._is_working and not self._unknown(request):
            return self._do(request)
        pending = Pending()
        self._waiting.append((request, pending))
        if not self._is_working:
            self._is_working = True
            self._begin(self._work())
        return pending

    def _unknown(self, request: Any) -> list[str]:
        if isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest):
            return self._requests.unknown_topics(request)
        return []

    async def _work(self) -> None:
        try:
            while self._waiting:
                request, pending = self._waiting[0]
                try:
                    await self._read_configs(self._unknown(request))
                except NoAnswer as lost:  # the next session reads all of them
                    log.warning("The configs of new topics could not be read: %s", lost)
                self._waiting.popleft()
                if not pending.resolved:
                    pending.resolve(self._do(request))
        finally:
            self._is_working = False

    def _do(self, request: Any) -> Any:
        decision = self._decide(request)
        self._changed()
        self._metadata.apply(decision.records, decision.ordered)
        for topic, index in decision.deleted:
            self._delete_log(topic, index)
        self._done()
        return decision.response

    def _decide(self, request: Any) -> Decision:
        if isinstance(request, LeaderAndIsrRequest):
            return self._requests.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return self._requests.stop_replica(request)
        return self._requests.update_metadata(request)
