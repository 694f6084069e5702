"""Work on a request in steps, so that other requests can be served in between.

Work is a generator. It yields None between steps, or a `Pending` in order to go on with its result, and returns the
response. `kpybroker.runtime.fairness.slices` decides when it runs. Work that nobody waits for any more is thrown
`GivenUp`.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeVar

from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.scattered import Scattered

T = TypeVar("T")
E = TypeVar("E")
Work = Generator[Pending | None, Any, Any]
LARGE_BYTES: Final = 2 * 1024
"""Requests larger than this are worked on in steps, except those of kinds that must be decided as a whole."""

STEP_ELEMENTS: Final = 64
"""The number of elements of a request that are worked on in one step, where each takes a microsecond or two."""

RUN_ELEMENTS: Final = 512
"""The number of names that are sorted in one step."""


class GivenUp(BaseException):
    """The client has gone. Work that holds much frees it in steps and raises this again; other work just ends."""


def each(elements: Iterable[E], work: Callable[[E], T], at_once: int = 1) -> Generator[None, None, list[T]]:
    """Return the results of ``work`` for all elements, ``at_once`` in a step, and at least one step. For ``yield from``
    in a handler. Nothing else may change ``elements`` meanwhile."""
    results: list[T] = []
    left = iter(elements)
    while True:
        found = [work(element) for element in islice(left, at_once)]
        results += found
        if found or not results:
            yield
        if len(found) < at_once:
            return results


def in_blocks(elements: Iterable[E], work: Callable[[E], T]) -> Generator[None, None, list[T]]:
    """Like `each`, for work on an element that takes a microsecond or two: few elements are no step."""
    left = iter(elements)
    results = [work(element) for element in islice(left, STEP_ELEMENTS)]
    while results and len(results) % STEP_ELEMENTS == 0:
        yield
        found = [work(element) for element in islice(left, STEP_ELEMENTS)]
        if not found:
            break
        results += found
    return results


def distinct(elements: Iterable[E | None]) -> Generator[None, None, list[E]]:
    """Return each element but None once, in their order and in steps."""
    found: Scattered[E, None] = Scattered()
    once: list[E] = []
    for nth, element in enumerate(elements, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        if element is not None and element not in found:
            found[element] = None
            once.append(element)
    yield from found.emptied()
    return once


def in_order(elements: Iterable[str]) -> Generator[None, None, list[str]]:
    """Return the names sorted. Many are sorted in runs, which are merged in steps."""
    runs = []
    left = iter(elements)
    while run := sorted(islice(left, RUN_ELEMENTS)):
        runs.append(run)
        yield
    if len(runs) <= 1:
        return runs[0] if runs else []
    merged: list[str] = []
    merging = merge(*runs)
    while some := list(islice(merging, STEP_ELEMENTS)):
        merged += some
        yield
    return merged


def all_there(answers: list[Any]) -> Work:
    """Wait for those of the answers that are `Pending`, in steps, and return them all."""
    left = iter(range(len(answers)))
    try:
        for place in left:
            if place % STEP_ELEMENTS == STEP_ELEMENTS - 1:
                yield None
            answer = answers[place]
            if isinstance(answer, Pending):
                answers[place] = answer.response if answer.resolved else (yield answer)
    except (GeneratorExit, GivenUp):
        for place in left:
            if isinstance(answers[place], Pending):
                answers[place].cancel()
        raise
    return answers


def asked_once(elements: Sequence[E], ask: Callable[[E], Any], combine: Callable[[list[Any]], Any]) -> Work:
    """Combine the answers about all elements into a response, in steps. An element that is named twice is asked for
    once."""
    once = yield from distinct(elements)
    answers = yield from all_there((yield from each(once, ask)))
    if len(once) == len(elements):
        return combine(answers)
    answer_to: Scattered[E, Any] = Scattered()
    for nth, (element, answer) in enumerate(zip(once, answers, strict=True), 1):
        if nth % STEP_ELEMENTS == 0:
            yield None
        answer_to[element] = answer
    spread = yield from in_blocks(elements, answer_to.__getitem__)
    yield from answer_to.emptied()
    return combine(spread)


def at_once(work: Work) -> Any:
    """Run all steps of a work without a pause, and return its response."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
