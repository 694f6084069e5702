"""The verdict of a guard on one request."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kpybroker.calls.call import Call
from kpybroker.failed_response import failed_response
from kpybroker.serving.permissions import GuardedImage


class Refusal(NamedTuple):
    """The whole request is refused with this response."""

    response: Any


class Reduced(NamedTuple):
    """The handler gets this request, and its response is completed: refusals are added, or what must not be seen is
    removed. The request that came is not changed, since it may be sent again."""

    request: Any
    complete: Callable[[Any], Any]


Verdict = Refusal | Reduced | None
"""None if everything is allowed."""
Guard = Callable[[GuardedImage, Any, Call], Verdict]


def refused(request: Any, call: Call, code: int, reason: str | None = None) -> Refusal:
    """The refusal of a whole request, in the form of its API (``getErrorResponse``)."""
    return Refusal(failed_response(request, call.api_version, code, reason))
