"""The stage between decoding a request and handling it, where an authorizer is configured."""

from collections.abc import Callable, Generator
from typing import Any

from kpybroker.requests.guards.needs import forwarded_guard, guard_of
from kpybroker.requests.guards.verdict import Guard, InSteps, Refusal, Verdict
from kpybroker.requests.serving.permissions import GuardedImage
from kpybroker.runtime.calls.call import Call, Handle
from kpybroker.runtime.calls.deferred import pass_on
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import Work, at_once

Reply = Callable[[Any], object]


def guarded(node: Any, api_key: int, handle: Handle, work: Callable[..., Work] | None) -> tuple[Handle, Any]:
    """The handler of an API and its form in steps, behind the guard that the API has at this node. Behind a guard every
    handler has such a form, since large requests are examined in steps."""
    guard = guard_of(node, api_key)
    if guard is None:
        return handle, work
    return _guarded(guard, handle), _guarded_work(guard, _as_work(handle) if work is None else work)


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
        if isinstance(verdict, Generator):
            verdict = at_once(verdict)
            if verdict is None:
                return handle(node, request, call)
        if isinstance(verdict, Refusal):
            return verdict.response
        return _completed(handle(node, verdict.request, call), verdict.complete, call)

    return behind_guard


def _completed(answer: Any, complete: Callable[[Any], Any], call: Call) -> Any:
    """The answer of a handler, completed. A long one is completed in steps."""
    if not isinstance(answer, Pending):
        completed = complete(answer)
        return call.peer.share(completed) if isinstance(completed, Generator) else completed
    later = Pending()
    later.when_cancelled(answer.cancel)
    answer.when_resolved(lambda late: pass_on(_completed(late, complete, call), later))
    return later


def _guarded_work(guard: Guard, in_steps: Callable[..., Work]) -> Callable[..., Work]:
    def behind_guard(node: Any, request: Any, call: Call) -> Work:
        verdict = guard(node, request, call)
        if isinstance(verdict, Generator):
            verdict = yield from verdict
        yield None
        if isinstance(verdict, Refusal):
            return verdict.response
        response = yield from in_steps(node, request if verdict is None else verdict.request, call)
        if verdict is None:
            return response
        if isinstance(response, Pending):
            response = yield response
        completed = verdict.complete(response)
        if isinstance(completed, Generator):
            completed = yield from completed
        return completed

    return behind_guard


Decide = Callable[[Any, Reply], object]


def admit_to(controller: GuardedImage) -> Callable[[Any, Call, Decide, Reply], None]:
    """The guard before a controller of the same process, for requests that its broker forwards."""

    def admit(request: Any, call: Call, decide: Decide, reply: Reply) -> None:
        verdict = forwarded_guard(controller, request, call)
        if isinstance(verdict, Generator):
            call.peer.share(_admitted(verdict, request, call, decide, reply))
        else:
            _proceed(verdict, request, call, decide, reply)

    return admit


def _admitted(verdict: InSteps, request: Any, call: Call, decide: Decide, reply: Reply) -> Work:
    _proceed((yield from verdict), request, call, decide, reply)


def _proceed(verdict: Verdict, request: Any, call: Call, decide: Decide, reply: Reply) -> None:
    if verdict is None:
        decide(request, reply)
    elif isinstance(verdict, Refusal):
        reply(verdict.response)
    else:
        complete = verdict.complete
        decide(verdict.request, lambda response: _complete_to(reply, complete(response), call))


def _complete_to(reply: Reply, completed: Any, call: Call) -> None:
    """Reply with a response, after the work on it if there is some."""
    if isinstance(completed, Generator):
        call.peer.share(_replied(reply, completed))
    else:
        reply(completed)


def _replied(reply: Reply, completed: Work) -> Work:
    reply((yield from completed))
