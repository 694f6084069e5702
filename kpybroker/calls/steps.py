"""Work on a request in steps, so that other requests can be served in between.

Work is a generator. It yields None between steps, or a `Pending` in order to go on with its result, and returns the
response. `kpybroker.fairness.slices` decides when it runs.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from kpybroker.calls.gathered import gathered
from kpybroker.calls.pending import Pending

T = TypeVar("T")
E = TypeVar("E")
Work = Generator[Pending | None, Any, Any]
LARGE_BYTES: Final = 2 * 1024
"""Requests larger than this are worked on in steps, except those of kinds that must be decided as a whole."""

STEP_ELEMENTS: Final = 64
"""The number of elements of a request that are worked on in one step, where each takes a microsecond or two."""


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


def distinct(elements: Iterable[E]) -> Generator[None, None, dict[E, None]]:
    """Return each element once, in their order and in steps."""
    found: dict[E, None] = {}
    for nth, element in enumerate(elements, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        found[element] = None
    return found


def asked_once(
    elements: Sequence[E], ask: Callable[[E], Any], combine: Callable[[list[Any]], T]
) -> Generator[None, None, T | Pending]:
    """Combine the answers about all elements into a response, in steps; return it or a `Pending`. An element that is
    named twice is asked for once."""
    once = yield from distinct(elements)
    answers = yield from each(once, ask)
    if len(once) == len(elements):
        return gathered(answers, combine)  # type: ignore[no-any-return]

    def spread(found: list[Any]) -> T:
        answer_to = dict(zip(once, found, strict=True))
        return combine([answer_to[element] for element in elements])

    return gathered(answers, spread)  # type: ignore[no-any-return]


def at_once(work: Work) -> Any:
    """Run all steps of a work without a pause, and return its response."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
