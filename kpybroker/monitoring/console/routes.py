"""The paths of the console on the second port. Nothing else of the console is imported before the first request, and
then in a thread: it takes a fifth of a second, for which clients would wait.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kpybroker.runtime.http.request import HttpAnswer, Request, Route

if TYPE_CHECKING:
    from kpybroker.monitoring.console.console import Console

METHODS: Final = frozenset({"GET", "POST"})
PATHS: Final = (
    "/",
    "/api/",
    "/balance",
    "/balance/",
    "/brokers/",
    "/configs",
    "/connections",
    "/connections/",
    "/elections",
    "/features",
    "/find",
    "/group",
    "/group/",
    "/groups",
    "/history",
    "/mirrors",
    "/moves/",
    "/quorum",
    "/quotas",
    "/records",
    "/records/",
    "/searches",
    "/searches/",
    "/security",
    "/static/",
    "/throttles/",
    "/tiers",
    "/topics",
    "/topics/",
    "/transactions",
    "/transactions/",
)


class ConsoleRoutes:
    """The routes of the console, which is made at the first request."""

    def __init__(self, new_console: "Callable[[], Console]") -> None:
        self._new_console = new_console
        self._console: Console | None = None
        self.routes = {path: Route(self._answer, METHODS) for path in PATHS}

    async def _answer(self, request: Request) -> HttpAnswer:
        if self._console is None:
            await asyncio.to_thread(_load)
        if self._console is None:  # another request may have come first
            self._console = self._new_console()
        return await self._console.answer(request)

    def close(self) -> None:
        """End everything that the console does in the background."""
        if self._console is not None:
            self._console.close()


def _load() -> None:
    from kpybroker.monitoring.console import console

    console.load()
