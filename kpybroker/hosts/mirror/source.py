"""The source of a mirror: the file that says how it is reached, and connections to its brokers.

The file has the properties of Kafka's clients, TLS and every SASL mechanism among them. It lies on the broker's
machine, so that no password is in the metadata.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.client.bad_property import BadProperty
from kpybroker.client.connection import Unreachable
from kpybroker.client.sources import MirrorSource, source_of
from kpybroker.config.properties import read_properties
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.naming import WITH_NAMES, identified, named
from kpywire.api import FETCH
from kpywire.messages.fetch import FetchRequest

LOST: Final = (OSError, EOFError, Unreachable, KafkaError, BadProperty)


def read_source(path: Path) -> MirrorSource:
    """The source that a file of properties describes. Raises BadProperty, with the path in its text."""
    try:
        return source_of({name: each.value for name, each in read_properties(path).items()})
    except (BadProperty, ConfigError, OSError) as error:
        raise BadProperty(f"{path}: {error}") from None


class SourcePeer:
    """One broker of a source: requests and their answers in turn, over a connection that is made when it is needed.

    Fetches have the ids of topics here. Where ``by_name`` is set they are sent with names (`naming`).

    Invariant: ``done`` of each request is called once, with the response or with `NoResponse`."""

    def __init__(self, source: MirrorSource, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.by_name = False
        """Whether this connection fetches topics by their names."""
        self._source = source
        self._names: dict[bytes, str] = {}
        self._ids: dict[str, bytes] = {}
        self._calls: deque[tuple[Any, Callable[[Any], object]]] = deque()
        self._connection: AsyncioConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def know(self, topic_id: bytes, name: str) -> None:
        """Note the name of a topic, by its id here."""
        self._names[topic_id] = name
        self._ids[name] = topic_id

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection. It may be lost already."""
        return self._connection is not None

    def greet(self, done: Callable[[Any], object]) -> None:
        """Connect; ``done`` gets the newest version of Fetch that both sides know, or `NoResponse`."""
        self.send(None, done)

    def send(self, request: Any, done: Callable[[Any], object]) -> None:
        """Ask; ``done`` gets the answer later."""
        self._calls.append((request, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer_all())

    def close(self) -> None:
        """Close the connection. Requests without an answer get `NoResponse`."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._drop()
        unanswered, self._calls = self._calls, deque()
        for _, done in unanswered:
            done(NoResponse("the connection was closed here"))

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _answer_all(self) -> None:
        while self._calls:
            request, _ = self._calls[0]
            answer = await self._answer(request)
            _, done = self._calls.popleft()
            if not self._calls:
                self._task = None
            done(answer)
            if self._task is not asyncio.current_task():
                return

    async def _answer(self, request: Any) -> Any:
        wait_s = request.max_wait_ms / 1000 if isinstance(request, FetchRequest) else 0.0
        settings = self._source.settings
        try:
            async with asyncio.timeout(self._source.timeout_s + wait_s):
                if self._connection is None:
                    self._connection = await AsyncioConnection.connect(
                        self.host, self.port, settings.client_id, settings.protection
                    )
                if request is None:
                    return self._connection.version(FETCH)
                if not (self.by_name and isinstance(request, FetchRequest)):
                    return await self._connection.call(request)
                version = self._connection.version(FETCH, WITH_NAMES)
                answer = await self._connection.call(named(request, self._names, version), WITH_NAMES)
                return identified(answer, self._ids)
        except TimeoutError:
            self._drop()
            return NoResponse("no answer in time")
        except LOST as error:
            self._drop()
            return NoResponse(str(error) or type(error).__name__)
