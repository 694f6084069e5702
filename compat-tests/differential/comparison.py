"""Two answers, side by side: where they differ, and whether that is known. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """One field that Apache Kafka answers otherwise than kpybroker."""

    path: str
    """Names of fields joined by dots; elements of arrays are ``[]``."""
    kafka: Any
    kpybroker: Any
    element: Any = None
    """Apache Kafka's struct that holds the field."""

    def __str__(self) -> str:
        return f"{self.path or 'the answer'}: Apache Kafka {_short(self.kafka)}, kpybroker {_short(self.kpybroker)}"


class Missing:
    """In place of an element that the other broker has."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()


def differences(kafka: Any, kpybroker: Any, path: str = "", element: Any = None) -> Iterator[Difference]:
    """Every leaf that differs."""
    if isinstance(kafka, dict) and isinstance(kpybroker, dict) and kafka.keys() == kpybroker.keys():
        for name, value in kafka.items():
            yield from differences(value, kpybroker[name], f"{path}.{name}" if path else name, kafka)
    elif isinstance(kafka, list) and isinstance(kpybroker, list):
        yield from _of_arrays(kafka, kpybroker, f"{path}[]", element)
    elif kafka != kpybroker or type(kafka) is not type(kpybroker):
        yield Difference(path, kafka, kpybroker, element)


def _of_arrays(kafka: list[Any], kpybroker: list[Any], path: str, element: Any) -> Iterator[Difference]:
    """Elements that both have are taken away first; the rest are paired by what names them, then in order."""
    left = [each for each in kafka if each not in kpybroker]
    right = [each for each in kpybroker if each not in kafka]
    paired = []
    for each in list(left):
        partner = next((other for other in right if _identity(other) == _identity(each) is not None), None)
        if partner is not None:
            left.remove(each)
            right.remove(partner)
            paired.append((each, partner))
    if not left and not right and not paired and len(kafka) != len(kpybroker):
        yield Difference(f"{path}count", len(kafka), len(kpybroker), element)
    while left and right:
        paired.append((left.pop(0), right.pop(0)))
    for one, other in paired:
        yield from differences(one, other, path, element)
    for each in left:
        yield Difference(path, each, MISSING, element)
    for each in right:
        yield Difference(path, MISSING, each, element)


IDENTITY = (
    "topic_id", "name", "topic", "topic_name", "partition_index", "partition", "index", "group_id", "member_id",
    "resource_name", "base_offset", "key",
)  # fmt: skip


def _identity(element: Any) -> Any:
    if not isinstance(element, dict):
        return None
    return tuple(repr(element[name]) for name in IDENTITY if name in element) or None


def _short(value: Any, limit: int = 600) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"
