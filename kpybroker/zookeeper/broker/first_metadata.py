"""The first metadata that a broker in ZooKeeper mode gets from its controller.

A new controller sends the brokers first, and then the topics. Before that, clients see no brokers and ask again. One
that saw brokers without a controller or without topics might wait for long, or give its topics up.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kpybroker.io.scheduler import Scheduler
from kpybroker.metadata.image import MetadataImage
from kpybroker.zookeeper.client.client import Client, NoAnswer
from kpybroker.zookeeper.client.operations import GetChildren
from kpybroker.zookeeper.tree import paths

FIRST_METADATA_WAIT_MS: Final = 5_000
"""A broker that has not heard of a controller by then has started all the same. One that has heard of brokers, and of
no topics by then, lists the brokers."""


class FirstMetadata:
    """Whether the controller has sent the metadata of the cluster since the start."""

    def __init__(
        self, scheduler: Scheduler, client: Client, image: MetadataImage, has_named_topics: Callable[[], bool]
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
