"""Handlers behind a guard, whatever their form."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.requests.guards.stage import guarded_work
from kpybroker.runtime.calls.steps import at_once
from kpywire import api


def answer(*_asked: Any) -> str:
    return "an answer"


def answer_in_steps(*_asked: Any) -> Generator[None, None, str]:
    yield
    return "an answer"


def answer_in_steps_as_compiled(*asked: Any) -> Generator[None, None, str]:
    """``inspect.isgeneratorfunction`` is false for a compiled generator function, as it is here."""
    return answer_in_steps(*asked)


@pytest.mark.parametrize("handle", [answer, answer_in_steps, answer_in_steps_as_compiled])
def test_a_handler_of_any_form_is_work_in_steps(handle: Any) -> None:
    work = guarded_work(SimpleNamespace(authorizer=None), api.CREATE_TOPICS, handle)
    call: Any = None
    assert at_once(work(None, None, call)) == "an answer"
