"""Work on a request in steps, so that other requests can be served in between.

Work is a generator. It yields None between steps, or a `Pending` in order to go on with its result, and returns the
response. `kpybroker.fairness.slices` decides when it runs.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, TypeVar

from kpybroker.calls.pending import Pending

T = TypeVar("T")
E = TypeVar("E")
Work = Generator[Pending | None, Any, Any]
LARGE_BYTES: Final = 2 * 1024
"""Requests larger than this are worked on in steps, except those of kinds that must be decided as a whole."""

STEP_ELEMENTS: Final = 64
"""The number of elements of a request that are worked on in one step, where each takes a microsecond or two."""


def each(elements: Iterable[E], work: Callable[[E], T], at_once: int = 1) -> Generator[None, None, list[T]]:
    """Return the results of ``work`` for all elements, ``at_once`` in a step. For ``yield from`` in a handler."""
    results: list[T] = []
    left = list(elements)
    for start in range(0, len(left), at_once):
        results += [work(element) for element in left[start : start + at_once]]
        yield
    return results


def at_once(work: Work) -> Any:
    """Run all steps of a work without a pause, and return its response."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
