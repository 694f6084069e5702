"""The error codes in a response: the one at the top and those of its topics, partitions, groups and so on.

They are needed for counting, and to find the controller. Not used for Produce and Fetch, whose handlers count their own
errors, nor for answers that are already encoded.
"""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Final

from kpywire import error_codes
from kpywire.encoding import EncodedStructs
from kpywire.messages.describe_quorum import DescribeQuorumResponse
from kpywire.schema import fields_of

ERROR_CODE: Final = "error_code"
Errors = Callable[[Any, list[int]], None]
"""A function that appends the error codes of a message that are not 0."""
STEP_ELEMENTS: Final = 128
"""The number of elements that one step passes."""
_Below = tuple[bool, list[Any]]


@cache
def errors_in(message: type) -> Errors | None:
    """The function that finds the errors in messages of this class; None if they have no field for errors."""
    has_code = False
    nested: list[tuple[str, Errors]] = []
    for field in fields_of(message):
        has_code = has_code or field.name == ERROR_CODE
        shape = field.shape.element if field.shape.kind == "array" else None
        below = errors_in(shape.struct) if shape is not None and shape.struct is not None else None
        if below is not None:
            nested.append((field.name, below))
    if not has_code and not nested:
        return None

    def append_errors(answer: Any, codes: list[int]) -> None:
        if has_code and answer.error_code:
            codes.append(answer.error_code)
        for name, below in nested:
            below_it = getattr(answer, name) or ()
            if type(below_it) is not EncodedStructs:
                for each in below_it:
                    below(each, codes)

    return append_errors


def errors_in_steps(answer: Any, count: Callable[[int], None]) -> Generator[None, None, None]:
    """Call ``count`` with each error code of a message that is not 0, in steps."""
    message: type = type(answer)
    yield from _walked(answer, _below(message), count, [0])


def _walked(
    answer: Any, below: "_Below", count: Callable[[int], None], passed: list[int]
) -> Generator[None, None, None]:
    has_code, nested = below
    if has_code and answer.error_code:
        count(answer.error_code)
    for name, inner in nested:
        parts = getattr(answer, name) or ()
        if type(parts) is EncodedStructs:
            continue
        is_leaf = not inner[1]
        for each in parts:
            passed[0] += 1
            if passed[0] % STEP_ELEMENTS == 0:
                yield
            if not is_leaf:
                yield from _walked(each, inner, count, passed)
            elif each.error_code:
                count(each.error_code)


@cache
def _below(message: type) -> "_Below":
    """Whether messages of this class have an error code, and their lists of elements that have errors."""
    fields = fields_of(message)
    structs = [(field.name, field.shape.element.struct) for field in fields if field.shape.element is not None]
    inner = [(name, _below(struct)) for name, struct in structs if struct is not None]
    return any(field.name == ERROR_CODE for field in fields), [(name, each) for name, each in inner if any(each)]


def names_no_controller(response: object) -> Generator[None, None, bool]:
    """Return whether a response reports that its node's controller is not the active one, found in steps."""
    codes: set[int] = set()
    yield from errors_in_steps(response, codes.add)
    # What is asked of the quorum is answered in its words (``RequestChannel.shouldReturnNotController``).
    by_the_quorum = type(response) is DescribeQuorumResponse and error_codes.NOT_LEADER_OR_FOLLOWER in codes
    return by_the_quorum or error_codes.NOT_CONTROLLER in codes
