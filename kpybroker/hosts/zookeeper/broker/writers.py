"""The writers of what clients want changed. In ZooKeeper mode the broker that gets such a request writes it itself."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.hosts.zookeeper.client.client import NoAnswer
from kpybroker.machines.failed_response import failed_response
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes

Reply = Callable[[Any], object]
Way = Callable[[Any, Call], Awaitable[Any]]
"""Answers one request of a client."""


class ApiWriter(Protocol):
    """The writer of some APIs."""

    def way(self, api_key: int) -> Way | None:
        """The way of requests of an API; None if this writer has none, at this moment."""


class Writers:
    """All writers of a broker."""

    def __init__(self, writers: Sequence[ApiWriter], begin: Begin) -> None:
        """The first writer that has a way takes a request."""
        self._writers = writers
        self._begin = begin

    def take(self, request: Any, call: Call, reply: Reply) -> bool:
        """Take a request, if a writer has a way for it. Returns whether it was taken."""
        ways = (writer.way(call.api_key) for writer in self._writers)
        way = next((each for each in ways if each is not None), None)
        if way is None:
            return False
        self._begin(_answer(way, request, call, reply))
        return True


async def _answer(way: Way, request: Any, call: Call, reply: Reply) -> None:
    try:
        reply(await way(request, call))
    except NoAnswer as lost:
        code = error_codes.UNKNOWN_SERVER_ERROR  # as Kafka answers when its session expires meanwhile
        reply(failed_response(request, call.api_version, code, str(lost)))
