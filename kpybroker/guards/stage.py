"""The stage between decoding a request and handling it, where an authorizer is configured."""

from collections.abc import Callable, Generator
from typing import Any

from kpybroker.calls.call import Call, Handle
from kpybroker.calls.gathered import gathered
from kpybroker.calls.pending import Pending
from kpybroker.calls.steps import Work
from kpybroker.guards.needs import forwarded_guard, guard_of
from kpybroker.guards.verdict import Guard, Refusal
from kpybroker.serving.permissions import GuardedImage

Reply = Callable[[Any], object]


def guarded(node: Any, api_key: int, handle: Handle, work: Callable[..., Work] | None) -> tuple[Handle, Any]:
    """The handler of an API and its form in steps, behind the guard that the API has at this node."""
    guard = guard_of(node, api_key)
    if guard is None:
        return handle, work
    return _guarded(guard, handle), None if work is None else _guarded_work(guard, work)


def guarded_work(node: Any, api_key: int, handle: Callable[..., Any]) -> Callable[..., Work]:
    """A handler of any form behind its guard, as work in steps."""
    guard = guard_of(node, api_key) if node.authorizer is not None else None
    return _as_work(handle) if guard is None else _guarded_work(guard, _as_work(handle))


def _as_work(handle: Callable[..., Any]) -> Callable[..., Work]:
    """A handler of any form as work. Its answer shows the form: of a compiled function it is not known before."""

    def work(node: Any, request: Any, call: Call) -> Work:
        yield from ()
        answer = handle(node, request, call)
        if isinstance(answer, Generator):
            answer = yield from answer
        return answer

    return work


def _guarded(guard: Guard, handle: Handle) -> Handle:
    def behind_guard(node: Any, request: Any, call: Call) -> Any:
        verdict = guard(node, request, call)
        if verdict is None:
            return handle(node, request, call)
        if isinstance(verdict, Refusal):
            return verdict.response
        return gathered([handle(node, verdict.request, call)], lambda responses: verdict.complete(responses[0]))

    return behind_guard


def _guarded_work(guard: Guard, in_steps: Callable[..., Work]) -> Callable[..., Work]:
    def behind_guard(node: Any, request: Any, call: Call) -> Work:
        verdict = guard(node, request, call)
        yield None
        if isinstance(verdict, Refusal):
            return verdict.response
        response = yield from in_steps(node, request if verdict is None else verdict.request, call)
        if verdict is None:
            return response
        if isinstance(response, Pending):
            response = yield response
        return verdict.complete(response)

    return behind_guard


def admit_to(
    controller: GuardedImage,
) -> Callable[[Any, Call, Callable[[Any, Reply], object], Reply], None]:
    """The guard before a controller of the same process, for requests that its broker forwards."""

    def admit(request: Any, call: Call, decide: Callable[[Any, Reply], object], reply: Reply) -> None:
        verdict = forwarded_guard(controller, request, call)
        if verdict is None:
            decide(request, reply)
        elif isinstance(verdict, Refusal):
            reply(verdict.response)
        else:
            complete = verdict.complete
            decide(verdict.request, lambda response: reply(complete(response)))

    return admit
