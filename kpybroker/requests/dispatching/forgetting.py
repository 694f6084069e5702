"""Frees the elements of large messages in steps: all at once would take tens of milliseconds.

No message is changed, since a handler may have kept it or a part of it.
"""

from collections.abc import Generator
from functools import cache
from sys import getrefcount
from typing import Any, Final

from kpywire.schema import fields_of

STEP_ELEMENTS: Final = 64
"""The number of elements that are freed in one step."""
ONLY_OURS: Final = 2
"""The references to an object that only one variable has: that one, and the argument of the function that counts."""
FEW_ELEMENTS: Final = 16
"""Shorter arrays of an element are freed with it."""


def forgotten(messages: list[Any]) -> Generator[None, None, None]:
    """Empty a list of messages of one class, or of what an array of them holds, in steps."""
    message_class: type = type(messages[-1]) if messages else object
    names = _arrays_of(message_class)
    while messages:
        if names:
            for _nth in range(min(STEP_ELEMENTS, len(messages))):
                arrays = _long_arrays(messages.pop(), names)
                while arrays:
                    yield from forgotten(_own(arrays))
        else:
            del messages[-STEP_ELEMENTS:]
        yield


def is_long(message: Any) -> bool:
    """Whether a message has enough elements to be worth steps of its own."""
    left = STEP_ELEMENTS
    arrays = _arrays_in(message)
    while arrays:
        array = arrays.pop()
        left -= len(array)
        if left < 0:
            return True
        for each in array:
            arrays += _arrays_in(each)
    return False


def _arrays_in(message: Any) -> list[Any]:
    message_class: type = type(message)
    return [array for name in _arrays_of(message_class) if (array := getattr(message, name))]


def _long_arrays(message: Any, names: tuple[str, ...]) -> list[Any]:
    """The arrays of a message that are long, or whose elements have arrays."""
    arrays = []
    for name in names:
        array = getattr(message, name)
        if array and (len(array) > FEW_ELEMENTS or _holds_arrays(array)):
            arrays.append(array)
    return arrays


def _holds_arrays(array: Any) -> bool:
    if type(array) is not list:
        return False
    element: type = type(array[0])
    return bool(_arrays_of(element))


def _own(arrays: list[Any]) -> list[Any]:
    """The last of these arrays if nobody else has it, else a copy."""
    array = arrays.pop()
    return array if type(array) is list and getrefcount(array) <= ONLY_OURS else list(array)


@cache
def _arrays_of(message: type) -> tuple[str, ...]:
    """The names of the arrays that messages of this class have, without those that are made when they are asked for."""
    if not hasattr(message, "FIELDS"):
        return ()
    names = (field.name for field in fields_of(message) if field.shape.kind == "array")
    return tuple(name for name in names if not isinstance(getattr(message, name, None), property))
