"""Work on the elements of large requests in steps, for deciders that are generators (`yield from`).

Compiled code makes a whole list of a generator expression before it is used, so these take what is there already, or
a `map`.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TypeVar

from kpybroker.machines.controller.state import LAST_OF_STEP, STEP

T = TypeVar("T")
R = TypeVar("R")


def counted(keys: Iterable[T]) -> Generator[None, None, "Counter[T]"]:
    """Count how often each key occurs."""
    times: Counter[T] = Counter()
    for number, key in enumerate(keys):
        times[key] += 1
        if number % STEP == LAST_OF_STEP:
            yield
    return times


def kept(elements: Iterable[T], keeps: Callable[[T], bool]) -> Generator[None, None, list[T]]:
    """Return the elements for which ``keeps`` is true."""
    found = []
    for number, element in enumerate(elements):
        if number % STEP == LAST_OF_STEP:
            yield
        if keeps(element):
            found.append(element)
    return found


def refused_twice(times: Mapping[T, int], refusal: Callable[[T], R]) -> Generator[None, None, list[R]]:
    """Return a refusal for each key that occurs more than once."""
    found = []
    for number, (key, count) in enumerate(times.items()):
        if number % STEP == LAST_OF_STEP:
            yield
        if count > 1:
            found.append(refusal(key))
    return found
