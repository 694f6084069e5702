"""Every method of Java's Admin does what it does on Apache Kafka.

What that is stands in ``expected/admin_walk.txt``, written by ``--target apache-kafka --record``. Of what kpybroker
does not serve yet, the client must be told just that.
"""

import re
from pathlib import Path

import pytest

from java_tools import JavaTools
from kpybroker.handlers import SERVED
from kpybroker.metadata import features, metadata_version
from targets import EXTERNAL

pytestmark = pytest.mark.java

EXPECTED = Path(__file__).resolve().parent / "expected"
WALK = EXPECTED / "admin_walk.txt"
UNSUPPORTED = re.compile(r"does not support ([A-Z_]+)")
NO_COORDINATOR_OF_TRANSACTIONS = {"describe transactions", "fence producers", "end a transaction"}


def lines_of(path: Path) -> dict[str, str]:
    """What is expected, by the name of its step."""
    if not path.exists():
        return {}
    return dict(line.split("\t", 1) for line in path.read_text().splitlines())


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


def features_here() -> str:
    """What a new node of kpybroker supports and finalises."""
    levels = {name: features.default_level(name, metadata_version.LATEST) for name in features.SUPPORTED}
    found = [f"finalized {name} {level}-{level}" for name, level in levels.items() if level > 0]
    found += [f"supported {name} {first}-{last}" for name, (first, last) in features.SUPPORTED.items()]
    return ", ".join(sorted(found))


def is_told_of_a_gap(step: str, outcome: str) -> bool:
    """Whether the client was told that an API is not served, and it is not."""
    refused = UNSUPPORTED.search(outcome)
    if refused is not None:
        return refused[1].lower() not in SERVED
    return step in NO_COORDINATOR_OF_TRANSACTIONS and "TransactionalIdAuthorizationException" in outcome


@pytest.fixture(scope="module")
def walk(request: pytest.FixtureRequest, java_tools: JavaTools, bootstrap_servers: str, target: str) -> dict[str, str]:
    """What came of each step."""
    if target == EXTERNAL:
        pytest.skip("configures the broker, and --bootstrap-server names one of somebody else")
    name = "walked-by-java"
    finished = java_tools.run("admin-walk", bootstrap_servers, name, timeout_s=180)
    assert finished.exit_code == 0, finished.text
    outcomes = [line.split("\t", 1) for line in finished.out.splitlines()]
    found = {step: normalised(outcome, name) for step, outcome in outcomes}
    if request.config.getoption("--record") and target == "apache-kafka":
        WALK.write_text("".join(f"{step}\t{outcome}\n" for step, outcome in found.items()))
    return found


def test_every_method_is_walked(walk: dict[str, str]) -> None:
    assert walk["not walked"] == "[]"
    assert list(walk) == list(lines_of(WALK))


@pytest.mark.parametrize("step", lines_of(WALK))
def test_a_step_ends_as_on_apache_kafka(walk: dict[str, str], step: str, target: str) -> None:
    expected, outcome = lines_of(WALK)[step], walk[step]
    if target == "kpybroker" and step == "describe features":
        expected = features_here()
    if target == "kpybroker" and is_told_of_a_gap(step, outcome):
        return
    assert outcome == expected
