"""Our bytes are Apache Kafka's bytes: every message at every version, against Kafka's own classes."""

import importlib
import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from all_messages import java_name, specifications, versions_of_messages
from message_values import random_message, to_json

import oracle
from kpywire import codec, metadata_records, remote_log_record, remote_log_records
from kpywire.api import API_KEYS, API_VERSIONS
from kpywire.errors import Malformed, UnsupportedVersion
from kpywire.generator.names import snake_case
from kpywire.generator.specifications import PLACES, read_package
from kpywire.header import request_header_version, response_header_version
from kpywire.schema import parse_versions
from oracle.jars import KAFKA_BEFORE, KAFKA_BEFORE_4, KAFKA_VERSION, jars_directory

pytestmark = pytest.mark.java
MESSAGES_PER_VERSION = 12
MESSAGES_BEFORE = 6
RENAMED_SINCE = {
    "TxnOffsetCommitRequest": {"generationIdOrMemberEpoch": "generationId"},
    "StreamsGroupHeartbeatResponse": {"acceptableRecoveryLagLegacy": "acceptableRecoveryLag"},
}
"""Fields of the Kafka before that have another name now."""
ADDED_SINCE = {
    "StreamsGroupMetadataValue": {"stored_description_topology_epoch": -1, "failed_description_topology_epoch": -1}
}
"""Tagged fields that versions of the Kafka before do not have, with their defaults."""
SINCE_THAT_KAFKA = {
    "AbortedTxn",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UnregisterControllerRecord",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
}
"""The messages with a version that the Kafka before does not know."""
OF_ZOOKEEPER_MODE = re.compile(r"(LeaderAndIsr|StopReplica|UpdateMetadata|ControlledShutdown)Re")


def ask(questions: list[str]) -> list[str]:
    """Kafka's answers, one for each question. Kafka 3.9 is asked about ZooKeeper mode, which 4.0 removed."""
    earlier = [OF_ZOOKEEPER_MODE.search(each) is not None for each in questions]
    answers = {
        release: iter(asked_of(release, [each for each, old in zip(questions, earlier, strict=True) if old is is_old]))
        for release, is_old in ((KAFKA_VERSION, False), (KAFKA_BEFORE_4, True))
    }
    return [next(answers[KAFKA_BEFORE_4 if old else KAFKA_VERSION]) for old in earlier]


def asked_of(release: str, questions: list[str]) -> list[str]:
    if not questions:
        return []
    classes = oracle.compile_java(Path(oracle.__file__).with_name("ByteOracle.java"))
    stdin = "\n".join(questions) + "\n"
    finished = oracle.java("ByteOracle", classes=[classes], stdin=stdin, heap="512m", release=release)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines()


@pytest.fixture(scope="module")
def names() -> dict[str, str]:
    return kafkas_spelling()


@cache
def kafkas_spelling() -> dict[str, str]:
    """Kafka's JSON spelling of our field names."""
    found: dict[str, str] = {}
    for specification in specifications(oracle.jars_directory()).values():
        for struct in specification.structs:
            for each in struct.fields:
                camel = each.name[0].lower() + each.name[1:]
                assert found.setdefault(snake_case(each.name), camel) == camel
    return found


def question(*words: object) -> str:
    return "\t".join(map(str, words))


def json_line(message: Any, version: int, names: dict[str, str]) -> str:
    return json.dumps(to_json(message, version, names))


def test_every_message_at_every_version_has_kafkas_bytes(names: dict[str, str]) -> None:
    rng = Random(20261120)
    questions, expected = [], []
    for cls, version in versions_of_messages():
        for _ in range(MESSAGES_PER_VERSION):
            message = random_message(cls, version, rng)
            ours = codec.encode(message, version)
            assert codec.decode(cls, version, ours) == message
            text = json_line(message, version, names)
            questions.append(question("compare", java_name(cls), version, text, ours.hex()))
            expected.append(f"{ours.hex()}\ttrue")
    answers = ask(questions)
    assert len(answers) == len(questions)
    for asked, ours, kafkas in zip(questions, expected, answers, strict=True):
        assert kafkas == ours, asked


def versions_before() -> dict[str, int]:
    """The newest version of each message in the Kafka before, by the name of its class."""
    return {
        each.name: parse_versions(each.versions)[-1]
        for package in PLACES
        for each in read_package(jars_directory(KAFKA_BEFORE), package)
        if each.versions != "none"
    }


def test_every_message_of_the_kafka_before_has_its_bytes_too(names: dict[str, str]) -> None:
    """At every version that it knows: clients, nodes and logs of that Kafka have the same bytes."""
    rng = Random(20261129)
    newest = versions_before()
    questions, expected, unknown = [], [], set()
    for cls, version in versions_of_messages():
        if OF_ZOOKEEPER_MODE.search(cls.__name__):
            continue
        if version > newest.get(cls.__name__, -1):
            unknown.add((cls.__name__, version))
            continue
        for _ in range(MESSAGES_BEFORE):
            message = random_message(cls, version, rng)
            for name, default in ADDED_SINCE.get(cls.__name__, {}).items():
                setattr(message, name, default)
            ours = codec.encode(message, version)
            text = json_line(message, version, names)
            for later, earlier in RENAMED_SINCE.get(cls.__name__, {}).items():
                text = text.replace(f'"{later}"', f'"{earlier}"')
            questions.append(question("compare", java_name(cls), version, text, ours.hex()))
            expected.append(f"{ours.hex()}\ttrue")
    answers = asked_of(KAFKA_BEFORE, questions)
    assert len(answers) == len(questions)
    for asked, ours, kafkas in zip(questions, expected, answers, strict=True):
        assert kafkas == ours, asked
    assert {name for name, _ in unknown} == SINCE_THAT_KAFKA


def test_a_new_message_has_kafkas_defaults() -> None:
    versions = versions_of_messages()
    answers = ask([question("default", java_name(cls), version) for cls, version in versions])
    for (cls, version), kafkas in zip(versions, answers, strict=True):
        assert codec.encode(cls(), version).hex() == kafkas, (cls, version)


def test_values_that_a_version_lacks_are_dropped_or_refused_as_kafka_does(names: dict[str, str]) -> None:
    rng = Random(42)
    questions, expected = [], []
    for cls, version in versions_of_messages():
        for _ in range(3):
            newest = cls.VERSIONS[-1]
            message = random_message(cls, newest, rng)
            json_text = json_line(message, newest, names)
            questions.append(question("write", java_name(cls), version, json_text, newest))
            expected.append(written_at(message, version))
    refused = 0
    for asked, ours, kafkas in zip(questions, expected, ask(questions), strict=True):
        assert kafkas == ours, asked
        refused += kafkas.startswith("!")
    assert 100 < refused < len(questions) - 100


def written_at(message: Any, version: int) -> str:
    """The bytes of a message at a version, or the name of Kafka's exception."""
    try:
        return codec.encode(message, version).hex()
    except UnsupportedVersion:
        return "!UnsupportedVersionException"
    except (AttributeError, TypeError):
        return "!NullPointerException"


def test_records_are_framed_as_kafka_frames_them(names: dict[str, str]) -> None:
    rng = Random(7)
    questions, expected = [], []
    for cls, version in versions_of_messages():
        if ".messages." in cls.__module__:
            continue
        message = random_message(cls, version, rng)
        frame, ours = framed(message, version)
        questions.append(question(frame, java_name(cls), version, json_line(message, version, names)))
        expected.append(ours.hex())
    assert ask(questions) == expected


def framed(message: Any, version: int) -> tuple[str, bytes]:
    """The name that the oracle gives a record's frame, and its bytes, which decode to the same record."""
    package = importlib.import_module(type(message).__module__.rpartition(".")[0])
    if package is metadata_records:
        ours = metadata_records.encode_record(message, version)
        assert metadata_records.decode_record(ours) == message
        return "record", ours
    if package is remote_log_records:
        ours = remote_log_record.encode_value(message, version)
        assert remote_log_record.decode_value(ours) == message
        return "record", ours  # the same frame
    if type(message).__name__.endswith("Key"):
        ours = package.encode_key(message)
        assert package.decode_key(ours) == message
        return "keyed", ours
    ours = package.encode_value(message, version)
    assert package.decode_value(message.KEY, ours) == message
    return "valued", ours


def test_apis_have_kafkas_versions_and_headers() -> None:
    asked = [(key, version) for key in range(120) for version in range(24)]
    answers = ask([question("api", key, version) for key, version in asked])
    for (key, version), answer in zip(asked, answers, strict=True):
        api = API_KEYS.get(key)
        if api is not None and api.listeners == ("zkBroker",):
            assert answer == "false", "Kafka 4 has no ZooKeeper mode"
            continue
        served = api is not None and api.min_version <= version <= api.max_version
        assert served == answer.startswith("true"), (key, version)
        if served or key == API_VERSIONS:
            headers = request_header_version(key, version), response_header_version(key, version)
            assert answer.split("\t")[1:] == [str(header) for header in headers], (key, version)


def test_kafka_and_we_refuse_the_same_bytes() -> None:
    """Mutated messages. We refuse more in tagged sections alone: sizes that lie and tags out of order (KIP-482)."""
    rng = Random(4)
    questions, ours = [], []
    for cls, version in versions_of_messages():
        for _ in range(8):
            mutated = bytes(mutate(codec.encode(random_message(cls, version, rng, 2), version), rng))
            questions.append(question("read", java_name(cls), version, mutated.hex()))
            ours.append(refusal(cls, version, mutated))
    stricter = 0
    for asked, refused, kafkas in zip(questions, ours, ask(questions), strict=True):
        if refused is None or kafkas.startswith("!"):
            assert (refused is not None) == kafkas.startswith("!"), (asked, refused, kafkas)
        else:
            assert is_stricter(refused), (asked, refused)
            stricter += 1
    assert stricter < len(questions) // 100


def is_stricter(refused: str) -> bool:
    """Whether Kafka's classes read on where we refuse bytes for this reason."""
    return re.search(r"tagged field|the size of|variable-length|cut off|beyond 2\*\*31", refused) is not None


def mutate(message: bytes, rng: Random) -> bytearray:
    mutated = bytearray(message) or bytearray(1)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(mutated))
        match rng.randrange(5):
            case 0:
                mutated[at] ^= 1 << rng.randrange(8)
            case 1:
                mutated[at] = rng.choice([0, 1, 2, 127, 128, 255])
            case 2:
                mutated.insert(at, rng.randrange(256))
            case 3:
                mutated += rng.randbytes(3)
            case 4 if at:
                del mutated[at:]
    return mutated


def refusal(cls: Any, version: int, mutated: bytes) -> str | None:
    try:
        codec.decode(cls, version, mutated)
    except Malformed as refused:
        return str(refused)
    return None
