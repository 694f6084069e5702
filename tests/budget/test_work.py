"""The work of one request may not grow: calls, system calls and memory, against ``budget.json``.

Where it grows for a good reason, ``python -m tests.budget --write`` renews the budget, and the diff shows by how much.
"""

from importlib.util import find_spec

import pytest

from . import counting, held
from .scenarios import TOLERANCES

VERSION, BUDGET = held.read()
pytestmark = pytest.mark.skipif(
    held.python_version() != VERSION, reason=f"the budget is for Python {VERSION}, whose calls differ from others'"
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> dict[str, counting.Work]:
    """The work of every scenario, all from one broker."""
    origin = find_spec("kpywire.skim").origin or ""
    if not origin.endswith(".py"):
        pytest.skip(f"the budget is for the pure form, and {origin} is compiled")
    return counting.measured(tmp_path_factory.mktemp("budget"))


def fail_if(reported: str | None) -> None:
    """With these words alone: where the test stands does not matter."""
    if reported:
        pytest.fail(f"{reported}\n(python -m tests.budget --write, if that is worth it)", pytrace=False)


def test_the_budget_covers_every_scenario(work: dict[str, counting.Work]) -> None:
    assert set(work) == set(BUDGET)


@pytest.mark.parametrize("kind", ["python", "c"])
@pytest.mark.parametrize("scenario", BUDGET)
def test_a_request_calls_no_more_functions_than_the_budget(
    work: dict[str, counting.Work], scenario: str, kind: str
) -> None:
    tolerance = TOLERANCES.get(scenario, counting.TOLERANCE)
    fail_if(held.grown_calls(kind, BUDGET[scenario][kind], work[scenario][kind], tolerance))


@pytest.mark.parametrize("scenario", BUDGET)
def test_a_request_makes_no_more_system_calls_than_the_budget(work: dict[str, counting.Work], scenario: str) -> None:
    if missing := counting.missing_for_strace():
        pytest.skip(missing)
    tolerance = TOLERANCES.get(scenario, counting.TOLERANCE)
    fail_if(held.grown_calls("system", BUDGET[scenario]["system"], work[scenario]["system"], tolerance))


@pytest.mark.parametrize("scenario", BUDGET)
def test_a_request_takes_and_leaves_no_more_memory_than_the_budget(
    work: dict[str, counting.Work], scenario: str
) -> None:
    fail_if(held.grown_memory(BUDGET[scenario], work[scenario]))


def test_a_function_that_is_called_once_more_is_named() -> None:
    before = {"dispatch.py __call__": 1.0, "produce.py handle": 3.0}
    reported = held.grown_calls("python", before, {**before, "produce.py handle": 4.0}, 0.03)
    assert reported is not None
    assert "3.00 ->    4.00  produce.py handle" in reported
    assert "dispatch.py" not in reported


def test_growth_within_the_tolerance_is_nothing() -> None:
    assert held.grown_calls("python", {"a": 100.0}, {"a": 102.0}, 0.03) is None
    assert held.grown_calls("python", {"a": 100.0}, {"b": 90.0}, 0.03) is None


def test_growing_memory_is_reported_separately() -> None:
    before = {"peak_bytes": 100_000, "held_bytes": 10}
    assert held.grown_memory(before, before) is None
    assert "at once" in (held.grown_memory(before, {**before, "peak_bytes": 120_000}) or "")
    assert "behind" in (held.grown_memory(before, {**before, "held_bytes": 200}) or "")
