"""Java's ``PriorityQueue``: of several least elements it yields the same one as Java does, which ``heapq`` does not."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaQueue(Generic[T]):
    """A queue whose elements are compared by a number. It may change only while an element is not in the queue."""

    __slots__ = ("_elements", "_key")

    def __init__(self, key: Callable[[T], float]) -> None:
        self._key = key
        self._elements: list[T] = []

    def __len__(self) -> int:
        return len(self._elements)

    def add(self, element: T) -> None:
        """Add an element (``siftUp``)."""
        elements, key = self._elements, self._key
        elements.append(element)
        at, number = len(elements) - 1, key(element)
        while at > 0:
            parent = (at - 1) // 2
            if number >= key(elements[parent]):
                break
            elements[at] = elements[parent]
            at = parent
        elements[at] = element

    def poll(self) -> T | None:
        """Take the least element, or None if there is none (``siftDown``)."""
        elements, key = self._elements, self._key
        if not elements:
            return None
        least, moved = elements[0], elements.pop()
        if elements:
            at, number, half = 0, key(moved), len(elements) // 2
            while at < half:
                child = 2 * at + 1
                if child + 1 < len(elements) and key(elements[child]) > key(elements[child + 1]):
                    child += 1
                if number <= key(elements[child]):
                    break
                elements[at] = elements[child]
                at = child
            elements[at] = moved
        return least
