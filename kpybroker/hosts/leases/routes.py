"""Leases over the second port: ``POST /leases`` begins one, ``/leases/renew`` lets it last, ``/leases/end`` ends it.

What lends and answers is imported when somebody asks for the first lease.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kpybroker.runtime.http.request import HttpAnswer, Request, Route

if TYPE_CHECKING:
    from kpybroker.hosts.leases.answers import LeaseAnswers

POST: Final = frozenset({"POST"})


class LeaseRoutes:
    """The three paths."""

    def __init__(self, new_answers: "Callable[[], LeaseAnswers]") -> None:
        self._new_answers = new_answers
        self._answers: LeaseAnswers | None = None
        self.routes = {
            "/leases": Route(self._begin, POST),
            "/leases/renew": Route(self._renew, POST),
            "/leases/end": Route(self._end, POST),
        }

    def close(self) -> None:
        """End all leases."""
        if self._answers is not None:
            self._answers.lender.stop()

    def _asked(self) -> "LeaseAnswers":
        if self._answers is None:
            self._answers = self._new_answers()
        return self._answers

    async def _begin(self, request: Request) -> HttpAnswer:
        return await self._asked().begin(request)

    async def _renew(self, request: Request) -> HttpAnswer:
        return await self._asked().renew(request)

    async def _end(self, request: Request) -> HttpAnswer:
        return await self._asked().end(request)
