"""The requests of the controller, in the order in which they came.

A request may name topics whose configs are not known yet. They are read first, so that a log is made with the right
ones; the requests behind it wait.

A new controller sends the brokers first, and then the topics. Before that, clients see no brokers and ask again. One
that saw brokers without a controller or without topics might wait for long, or give its topics up.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.broker.controller_requests import ControllerRequests, RequestDecision
from kpybroker.machines.zookeeper.client.operations import GetChildren
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire.messages.leader_and_isr import LeaderAndIsrRequest
from kpywire.messages.stop_replica import StopReplicaRequest
from kpywire.messages.update_metadata import UpdateMetadataRequest

log = logging.getLogger("kpybroker.zookeeper")


FIRST_METADATA_WAIT_MS: Final = 5_000
"""A broker that has not heard of a controller by then has started all the same. One that has heard of brokers, and of
no topics by then, lists the brokers."""


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

    def _decide(self, request: Any) -> RequestDecision:
        if isinstance(request, LeaderAndIsrRequest):
            return self._requests.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return self._requests.stop_replica(request)
        return self._requests.update_metadata(request)


class FirstMetadata:
    """Whether the controller has sent the metadata of the cluster since the start."""

    def __init__(
        self, scheduler: Scheduler, client: ZooKeeperClient, image: MetadataImage, has_named_topics: Callable[[], bool]
    ) -> None:
        """``has_named_topics``: whether a controller has sent clients' metadata of topics."""
        self.is_known = False
        self._scheduler = scheduler
        self._client = client
        self._image = image
        self._has_named_topics = has_named_topics
        self._are_there_topics: bool | None = None
        """Whether the cluster has topics; None before that is known."""
        self._knows_brokers = False
        self._heard = asyncio.Event()

    def look(self) -> None:
        """A request of the controller has been carried out."""
        if self._are_there_topics is None or not self._image.brokers:
            return
        if self._has_named_topics() or not self._are_there_topics:
            self._know()
        elif not self._knows_brokers:
            self._knows_brokers = True
            self._scheduler.call_later(FIRST_METADATA_WAIT_MS, self._know)  # the topics may have been deleted meanwhile

    async def wait(self) -> None:
        """Wait until they are known, for a time. After it, they still may come."""
        are_there_topics = True
        with suppress(NoAnswer):  # the next session begins meanwhile
            are_there_topics = bool((await self._client.ask_until_answered(GetChildren(paths.TOPICS))).names)
        self._are_there_topics = are_there_topics
        timer = self._scheduler.call_later(FIRST_METADATA_WAIT_MS, self._heard.set)
        self.look()
        await self._heard.wait()
        timer.cancel()

    def _know(self) -> None:
        self.is_known = True
        self._heard.set()
