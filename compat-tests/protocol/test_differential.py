"""The same requests to Apache Kafka and to kpybroker: every answer of every API, and random sequences with state.

``--seed`` chooses the sequences. ``make differential SECONDS=3600`` plays more of them, other ones each time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.any_steps import advertised
from differential.coverage import errors_in, table
from differential.error_paths import PATHS, named_sequences
from differential.known import KNOWN, Known
from differential.pair import Pair, both, both_secured, explain, findings
from differential.steps import Call, Step
from kpybroker.requests.handlers import served_versions
from kpywire import api
from support.raw_client import api_key_of, connect
from support.raw_transactions import ADDING
from transactions.test_transactions_levels import set_level

SECONDS = 25
SECURED_SECONDS = 10
SEQUENCES = 40
"""The most sequences; `make differential` plays others for a given time."""
OF_TRANSACTIONS = [
    "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn", "WriteTxnMarkers",
    "DescribeTransactions", "whole transactions",
]  # fmt: skip
ERROR_PATHS = Path(__file__).parents[1] / "expected" / "error_paths.txt"
KNOWN_DIFFERENCES = Path(__file__).parents[1] / "KNOWN_DIFFERENCES.md"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, target: str) -> Iterator[Pair]:
    if target != "kpybroker":
        pytest.skip("compares kpybroker with Apache Kafka")
    with both(tmp_path_factory.mktemp("pair")) as started:
        yield started


@pytest.mark.java
@pytest.mark.parametrize("name", named_sequences())
def test_every_answer_of_an_api_is_the_same_at_every_version(
    pair: Pair, name: str, request: pytest.FixtureRequest
) -> None:
    """To the last step, and the answers that paths reach are those that they have reached before."""
    steps = named_sequences()[name]
    before = set(pair.reached)
    pair.reached.clear()
    played = pair.play(steps)
    reached = [line for line in table(pair.reached) if line.startswith(f"{name}: ")]
    answered = {(key, version) for key, version, _ in pair.reached}
    pair.reached.update(before)
    if played.at >= 0:
        found = explain(pair, steps, played)
        once = "\n".join(["it did not show again:", *played.report(steps).splitlines()[-10:]])
        pytest.fail(once if found is None else found.text)
    assert played.steps == len(steps), f"the rest is not compared: {played.known}"
    assert {each for each in advertised() if api.API_KEYS[each[0]].name == name} <= answered
    expected = [line for line in ERROR_PATHS.read_text().splitlines() if line.startswith(f"{name}: ")]
    if request.config.getoption("--record"):
        lines = {*ERROR_PATHS.read_text().splitlines()} - {*expected} | {*reached}
        ERROR_PATHS.write_text("".join(f"{line}\n" for line in sorted(lines)))
        return
    lost = errors_in(expected) - errors_in(reached)
    assert not lost, "if it is meant: pytest compat-tests/protocol/test_differential.py --record"


@pytest.fixture(params=[1, 0])
def level(pair: Pair, request: pytest.FixtureRequest) -> Iterator[int]:
    """An older level of ``transaction.version``, at which both brokers are."""
    set_levels(pair, request.param)
    yield request.param
    set_levels(pair, 2)


def set_levels(pair: Pair, level: int) -> None:
    for port in pair.ports:
        with connect(f"127.0.0.1:{port}") as raw:
            set_level(raw, level)


def of_the_second_generation(step: Step) -> bool:
    """Whether no client asks for this that knows that ``transaction.version`` is 0; see KNOWN_DIFFERENCES.md."""
    if not isinstance(step, Call):
        return False
    match api_key_of(step.request):
        case api.PRODUCE:
            return step.version >= ADDING and step.request.transactional_id is not None
        case api.ADD_PARTITIONS_TO_TXN:
            return step.version >= 4 and not step.request.transactions[0].verify_only
        case key:
            return key == api.END_TXN and step.version >= 5


@pytest.mark.java
@pytest.mark.parametrize("name", OF_TRANSACTIONS)
def test_transactions_are_answered_alike_at_older_levels(pair: Pair, level: int, name: str) -> None:
    steps = [step for step in named_sequences()[name] if level > 0 or not of_the_second_generation(step)]
    played = pair.play(steps)
    assert played.at < 0, played.report(steps)
    assert played.steps == len(steps), played.known


@pytest.mark.java
def test_random_sequences_are_answered_alike(pair: Pair, request: pytest.FixtureRequest) -> None:
    first = int(request.config.getoption("--seed")) * 1_000_000
    found = [each.text for each in findings(pair, range(first, first + SEQUENCES), SECONDS, shrink_s=20)]
    assert not found, "\n\n".join(found)
    assert pair.sequences > 20


@pytest.mark.java
@pytest.mark.slow
def test_a_user_with_all_permissions_over_tls_and_scram_gets_the_same_answers(
    target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if target != "kpybroker":
        pytest.skip("compares kpybroker with Apache Kafka")
    first = int(request.config.getoption("--seed")) * 1_000_000 + SEQUENCES
    with both_secured(tmp_path) as pair:
        found = [each.text for each in findings(pair, range(first, first + SEQUENCES), SECURED_SECONDS, shrink_s=10)]
    assert not found, "\n\n".join(found)
    assert pair.steps > 100


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_difference_that_is_let_pass_is_written_down(known: Known) -> None:
    assert any(known.row in line for line in KNOWN_DIFFERENCES.read_text().splitlines())


def test_every_api_that_is_served_has_paths() -> None:
    """Also one that has just been added."""
    assert [api.API_KEYS[key].name for key in served_versions() if key not in PATHS] == []
