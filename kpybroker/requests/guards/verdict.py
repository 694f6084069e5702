"""The verdict of a guard on one request."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from kpybroker.machines.failed_response import failing
from kpybroker.requests.serving.permissions import GuardedImage
from kpybroker.runtime.calls.call import Call


class Refusal(NamedTuple):
    """The whole request is refused with this response."""

    response: Any


class Reduced(NamedTuple):
    """The handler gets this request, and its response is completed: refusals are added, or what must not be seen is
    removed. The request that came is not changed, since it may be sent again. ``complete`` returns the response, or
    work in steps that does."""

    request: Any
    complete: Callable[[Any], Any]


Verdict = Refusal | Reduced | None
"""None if everything is allowed."""
InSteps = Generator[None, None, Verdict]
"""A verdict that takes time in proportion to the request: it is found in steps."""
Guard = Callable[[GuardedImage, Any, Call], Verdict | InSteps]


def refused(request: Any, call: Call, code: int, reason: str | None = None) -> InSteps:
    """The refusal of a whole request, in the form of its API (``getErrorResponse``)."""
    return Refusal((yield from failing(request, call.api_version, code, reason)))
