"""Every method of Java's Admin does what it does on Apache Kafka.

What that is stands in ``expected/admin_walk.txt``; where kpybroker does otherwise, or does not serve what is asked for,
in ``expected/admin_walk_kpybroker.txt``, which may only become shorter. Targets in ZooKeeper mode have files of their
own with what is not the same there (`parity.LAYERS`). All are written by ``make parity``.
"""

import re

import pytest

from support import parity
from support.java_tools import JavaTools
from support.targets import EXTERNAL

pytestmark = pytest.mark.java


def normalised(text: str, name: str) -> str:
    """Without what differs from broker to broker and from run to run."""
    text = text.replace(name, "NAME")
    text = re.sub(r"(CONTROLLER://)?127\.0\.0\.1:\d+", "ADDRESS", text)
    text = re.sub(r"endpoints=\[.*?\]", "endpoints=ENDPOINTS", text)
    text = re.sub(r"(replicaDirectoryId|currentReplicaLogDir)=[^,)]+", r"\1=SOME", text)
    text = re.sub(r"(id=1, directoryId)=[\w-]{22}", r"\1=SOME", text)
    text = re.sub(r"(highWatermark|logEndOffset|leaderEpoch)=\d+(?=, (voters|lastFetch|highW))", r"\1=N", text)
    text = re.sub(r"(Timestamp=)OptionalLong\[\d+\]", r"\1NOW", text)
    text = re.sub(r"^\[[\w-]{22}, ", "[CLUSTER, ", text)
    text = re.sub(r"(name=root, value=)[A-Z]+", r"\1LEVEL", text)
    text = re.sub(r"(authorizedOperations=)\[(.*?)\]", _with_sorted_words, text)
    return _features(text) if text.startswith("FeatureMetadata") else text


def _with_sorted_words(match: "re.Match[str]") -> str:
    return f"{match[1]}{sorted(match[2].split(', '))}"


def _features(text: str) -> str:
    """The features in one order, without the offset of the metadata log."""
    levels = re.findall(r"\(([\w.]+) -> (Finalized|Supported)VersionRange\[\w+:(\d+), \w+:(\d+)\]\)", text)
    return ", ".join(sorted(f"{kind.lower()} {name} {low}-{high}" for name, kind, low, high in levels))


@pytest.fixture(scope="module")
def walk(
    request: pytest.FixtureRequest, java_tools: JavaTools, bootstrap_servers: str, target: str
) -> dict[str, parity.Step]:
    """The result of each step."""
    if target == EXTERNAL:
        pytest.skip("configures the broker, and --bootstrap-server names one of somebody else")
    name = "walked-by-java"
    finished = java_tools.run("admin-walk", bootstrap_servers, name, timeout_s=180)
    assert finished.exit_code == 0, finished.text
    steps = parity.steps_of(finished.out).items()
    found = {step: parity.Step(methods, normalised(outcome, name)) for step, (methods, outcome) in steps}
    if request.config.getoption("--record"):
        parity.record_steps(target, found)
    return found


def test_every_method_is_walked(walk: dict[str, parity.Step], target: str) -> None:
    assert walk["not walked"].outcome == "[]"
    assert list(walk) == list(parity.steps_expected(target))


@pytest.mark.parametrize("step", parity.steps_expected("apache-kafka"))
def test_a_step_ends_as_on_apache_kafka(walk: dict[str, parity.Step], step: str, target: str) -> None:
    assert walk[step] == parity.steps_expected(target)[step], parity.HOW_TO_RECORD


def test_the_page_has_what_was_recorded() -> None:
    assert parity.PAGE.read_text() == parity.page(), "run: make tables"
