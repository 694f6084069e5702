"""A crash or a hang of librdkafka is the failure of one test, and the others go on."""

import os
import time

import pytest

from support import own_process


@pytest.mark.own_process
def test_the_test_runs_in_another_process() -> None:
    assert os.environ[own_process.CHILD]


@pytest.mark.skipif(own_process.CHILD not in os.environ, reason="run by the test below, in a process of its own")
def test_a_process_that_aborts() -> None:
    os.abort()


@pytest.mark.skipif(own_process.CHILD not in os.environ, reason="run by the test below, in a process of its own")
def test_a_process_that_hangs() -> None:
    time.sleep(600)


@pytest.mark.parametrize(
    ("name", "limit_s", "ending"),
    [("test_a_process_that_aborts", 60, "it ended with -6"), ("test_a_process_that_hangs", 5, own_process.NEVER_ENDED)],
)
def test_a_process_that_does_not_end_well_is_a_failure(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, name: str, limit_s: int, ending: str
) -> None:
    monkeypatch.setattr(own_process, "LIMIT_S", limit_s)
    (item,) = [each for each in request.session.items if each.name == name]
    assert isinstance(item, pytest.Function)
    with pytest.raises(pytest.fail.Exception, match=ending):
        own_process.run_alone(item)
