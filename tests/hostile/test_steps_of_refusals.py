"""The refusal of a whole request is made in steps, whatever the request has many of."""

import sys
from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest
from swollen import Array, Filling, arrays, swollen

from kpybroker.machines.failed_response import failing
from kpybroker.requests.handlers import served_versions
from kpywire import api, error_codes
from kpywire.codec import decode
from kpywire.header import decode_request_header

MANY = 600
MOST_CALLS = 1500
"""The calls of functions in one step, in which some 32 entries are made. To pass over `MANY` takes more."""
SWOLLEN = [
    (key, array)
    for key in sorted(served_versions())
    for array in arrays(api.request_class(key), api.API_KEYS[key].max_version)
]


def most_calls(work: Generator[None, None, Any]) -> int:
    """The most function calls that one step of a work takes."""
    calls = most = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    while True:
        calls = 0
        sys.setprofile(count)
        try:
            next(work)
        except StopIteration:
            return max(most, calls)
        finally:
            sys.setprofile(None)
        most = max(most, calls)


@pytest.mark.parametrize(
    ("key", "array"), SWOLLEN, ids=lambda each: str(each) if isinstance(each, Array) else api.API_KEYS[each].name
)
def test_a_refusal_takes_few_calls_in_one_step(key: int, array: Array) -> None:
    version = api.API_KEYS[key].max_version
    frame = memoryview(swollen(key, version, array, MANY, Filling("t", distinct=True)))
    *_, position = decode_request_header(frame)
    request = decode(api.request_class(key), version, frame, position)
    assert most_calls(failing(request, version, error_codes.CLUSTER_AUTHORIZATION_FAILED)) < MOST_CALLS
