"""The pages of the second port: ``/metrics`` for Prometheus, ``/live`` and ``/ready`` for supervisors."""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from kpybroker.runtime.http.request import HttpAnswer, Request, Route

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
FAST: Final = 1
"""The level of gzip: lines that look alike need no effort."""


class Pages:
    """The three pages of a node."""

    def __init__(
        self,
        unready: Callable[[], str | None],
        metrics: Callable[[], Awaitable[list[bytes] | None]],
        may_see: Callable[[Request], bool],
    ) -> None:
        """``unready`` says why clients are not served, None when they are. ``metrics`` gathers Prometheus' text; None
        when there is nothing to report yet. ``may_see`` says whether the sender of a request may see it."""
        self._may_see = may_see
        self._unready = unready
        self._metrics = metrics
        self.routes = {"/metrics": Route(self._show), "/live": Route(self._live), "/ready": Route(self._ready)}

    async def _live(self, _request: Request) -> HttpAnswer:
        return HttpAnswer(HTTPStatus.OK, [b"live\n"])

    async def _ready(self, _request: Request) -> HttpAnswer:
        reason = self._unready()
        if reason is None:
            return HttpAnswer(HTTPStatus.OK, [b"ready\n"])
        return HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, [f"not ready: {reason}\n".encode()])

    async def _show(self, request: Request) -> HttpAnswer:
        if not self._may_see(request):
            return HttpAnswer(HTTPStatus.FORBIDDEN, [f"{request.principal} lacks DESCRIBE on the cluster\n".encode()])
        text = await self._metrics()
        if text is None:
            return HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, [f"no metrics yet: {self._unready()}\n".encode()])
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return HttpAnswer(HTTPStatus.OK, text, PROMETHEUS)
        compressed = await asyncio.to_thread(_compressed, text)
        return HttpAnswer(HTTPStatus.OK, [compressed], PROMETHEUS, {"Content-Encoding": "gzip"})


def _compressed(text: list[bytes]) -> bytes:
    """The text by gzip. Run in a thread: zlib releases the GIL while it works."""
    import gzip  # not of a start

    return gzip.compress(b"".join(text), FAST)
