"""The same requests to Apache Kafka and to kpybroker: every API at every version, and random sequences with state.

``--seed`` chooses the sequences. ``make differential SECONDS=3600`` plays more of them, other ones each time.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.author import every_version
from differential.known import KNOWN, Known
from differential.pair import Pair, both, explain, findings
from differential.steps import Step, text_of
from kpybroker.handlers import served_versions
from kpywire import api

SECONDS = 40
KNOWN_DIFFERENCES = Path(__file__).with_name("KNOWN_DIFFERENCES.md")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, target: str) -> Iterator[Pair]:
    if target != "kpybroker":
        pytest.skip("compares kpybroker with Apache Kafka")
    with both(tmp_path_factory.mktemp("pair")) as started:
        yield started


def _of(steps: list[Step]) -> str:
    return text_of(steps[-1]).split()[2].partition("Request")[0]


@pytest.mark.java
@pytest.mark.parametrize("steps", every_version(), ids=_of)
def test_an_ordinary_request_at_every_version_is_answered_alike(pair: Pair, steps: list[Step]) -> None:
    played = pair.play(steps)
    if played.at >= 0:
        found = explain(pair, steps, played)
        pytest.fail(found.text if found is not None else played.report(steps))


@pytest.mark.java
def test_random_sequences_are_answered_alike(pair: Pair, request: pytest.FixtureRequest) -> None:
    first = int(request.config.getoption("--seed")) * 1_000_000
    found = [each.text for each in findings(pair, itertools.count(first), SECONDS, shrink_s=20)]
    assert not found, "\n\n".join(found)
    assert pair.sequences > 20


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_difference_that_is_let_pass_is_written_down(known: Known) -> None:
    assert any(known.row in line for line in KNOWN_DIFFERENCES.read_text().splitlines())


def test_every_api_that_is_served_is_compared() -> None:
    compared = {_of(steps) for steps in every_version()}
    assert compared == {api.API_KEYS[key].name for key in served_versions()}
