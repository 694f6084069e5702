"""Makes a sequence that shows a difference short: steps, then elements of arrays, are left out while it still shows."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from differential.steps import Call, Step, fields_in
from kpywire.schema import Structure

Shows = Callable[[Sequence[Step]], bool]


def shrunk(steps: Sequence[Step], shows: Shows, within_s: float = 60.0) -> list[Step]:
    """The shortest sequence found in time for which ``shows`` holds, as it must for ``steps``."""
    deadline = time.monotonic() + within_s
    best = _without_steps(list(steps), shows, deadline)
    return _with_smaller_requests(best, shows, deadline)


def _without_steps(steps: list[Step], shows: Shows, deadline: float) -> list[Step]:
    size = max(1, len(steps) // 2)
    while size:
        at = len(steps) - size
        while at > -size and time.monotonic() < deadline:
            first = max(at, 0)
            fewer = steps[:first] + steps[at + size :]
            if fewer and len(fewer) < len(steps) and shows(fewer):
                steps = fewer
            at -= size
        size //= 2
    return steps


def _with_smaller_requests(steps: list[Step], shows: Shows, deadline: float) -> list[Step]:
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        if not isinstance(step, Call):
            continue
        at = 0
        while time.monotonic() < deadline:
            smaller = step._replace(request=_with_own_arrays(step.request))
            if not _leave_out(smaller.request, at):
                break
            fewer = [*steps[:index], smaller, *steps[index + 1 :]]
            if shows(fewer):
                steps, step = fewer, smaller
            else:
                at += 1
    return steps


def _with_own_arrays(value: Any) -> Any:
    """The message with arrays that can be changed; what holds none is shared."""
    if isinstance(value, list):
        return [_with_own_arrays(each) for each in value]
    if not isinstance(value, Structure):
        return value
    old = {name: getattr(value, name) for name in type(value).FIELDS}
    new = {name: _with_own_arrays(each) for name, each in old.items()}
    return value if all(new[name] is each for name, each in old.items()) else type(value)(**new)


def _leave_out(message: Any, at: int) -> bool:
    """Take the ``at``-th element away, counted through all arrays of the message; whether there was one."""
    for array in _arrays(message):
        if at < len(array):
            del array[at]
            return True
        at -= len(array)
    return False


def _arrays(value: Any) -> list[list[Any]]:
    found: list[list[Any]] = []
    if isinstance(value, Structure):
        for each in fields_in(value):
            found += _arrays(getattr(value, each.name))
    elif isinstance(value, list):
        found.append(value)
        for each in value:
            found += _arrays(each)
    return found
