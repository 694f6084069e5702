"""Levels, features and topic names, held against Apache Kafka's own classes, or what they said when they were asked."""

from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

from kpybroker.machines.metadata import features, metadata_version
from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.machines.metadata.topic_name import may_collide, reason_invalid, unify_collisions
from oracle.recorded import AskedAtOnce, Play

NAMES = ["", ".", "..", "a b", "a/b", "é", "x" * 249, "x" * 250, "ok-1._", "__consumer_offsets", "a.b", "a_b", "日本"]

Rows = dict[str, list[list[str]]]


@pytest.fixture(params=["recorded", pytest.param("asked", marks=pytest.mark.java)])
def facts(request: pytest.FixtureRequest, recorded: Play) -> Rows:
    ask = partial(AskedAtOnce, Path(__file__).with_name("MetadataFacts.java"))
    kafka = recorded(ask) if request.param == "recorded" else ask()
    rows: Rows = defaultdict(list)
    for line in kafka.ask_for_line(*NAMES).splitlines():
        kind, *columns = line.split("\t")
        rows[kind].append(columns)
    return rows


def test_levels_of_metadata_version_are_kafkas(facts: Rows) -> None:
    ours = [
        [
            str(version.level),
            version.version,
            str(version.metadata_changed).lower(),
            str(metadata_version.register_broker_record_version(version.level)),
            str(metadata_version.partition_record_version(version.level)),
            str(metadata_version.partition_record_version(version.level)),
            str(metadata_version.fetch_request_version(version.level)),
        ]
        for version in metadata_version.VERSIONS
    ]
    assert ours == facts["version"]


def test_the_features_and_their_levels_are_kafkas(facts: Rows) -> None:
    kafkas = {name: (int(lowest), int(highest)) for name, lowest, highest in facts["feature"]}
    ours = {name: tuple(levels) for name, levels in features.SUPPORTED.items()}
    del ours[metadata_version.FEATURE_NAME]
    assert ours == kafkas


def test_the_default_levels_of_features_are_kafkas(facts: Rows) -> None:
    kafkas = {(name, int(level)): int(default) for level, name, default in facts["default"] if name in SUPPORTED}
    assert {name for name, _ in kafkas} == {*SUPPORTED} - {metadata_version.FEATURE_NAME}
    assert {at: features.default_level(*at) for at in kafkas} == kafkas


def test_feature_levels_enable_the_same_as_in_kafka(facts: Rows) -> None:
    abilities = [
        metadata_version.SCRAM,
        metadata_version.ISR_SHRINK_KEEPS_LEADER_EPOCH,
        metadata_version.TRANSACTIONS,
        metadata_version.DELEGATION_TOKENS,
        metadata_version.CONTROLLER_REGISTRATION,
        metadata_version.DIRECTORY_ASSIGNMENT,
        metadata_version.ELIGIBLE_LEADER_REPLICAS,
        metadata_version.CORDONED_LOG_DIRS,
        metadata_version.NETWORKS_IN_ACLS,
        metadata_version.UNREGISTERED_CONTROLLERS,
    ]
    ours = [
        [str(version.level), *(str(version.level >= lowest).lower() for lowest in abilities)]
        for version in metadata_version.VERSIONS
    ]
    assert ours == [row for row in facts["able"] if int(row[0]) <= metadata_version.LATEST]


def test_dependencies_of_feature_levels_are_kafkas(facts: Rows) -> None:
    needed = {(name, int(level)): what for name, level, what in facts["needs"] if name in SUPPORTED}
    assert len(needed) >= len(SUPPORTED)
    assert {at: what for at, what in needed.items() if what != "{}"} == {
        at: "{" + ", ".join(f"{name}={level}" for name, level in what.items()) + "}"
        for at, what in features.DEPENDENCIES.items()
    }


def test_releases_name_the_levels_they_name_in_kafka(facts: Rows) -> None:
    for text, answer in facts["release"]:
        try:
            ours = str(metadata_version.level_of(text))
        except ValueError as error:
            ours = str(error)
        assert ours == answer


def test_topic_names_are_judged_as_kafka_judges_them(facts: Rows) -> None:
    ours = [
        [name, reason_invalid(name) or "", str(may_collide(name)).lower(), unify_collisions(name)] for name in NAMES
    ]
    assert ours == facts["name"]


@pytest.mark.parametrize(
    ("one", "other", "changes"),
    [(33, 32, True), (32, 31, True), (31, 30, False), (30, 29, True), (29, 23, False), (22, 18, False), (17, 16, True)],
)
def test_the_records_change_where_a_level_between_changed_them(one: int, other: int, changes: bool) -> None:
    assert metadata_version.metadata_changes_between(one, other) is changes
    assert metadata_version.metadata_changes_between(other, one) is changes
    assert not metadata_version.metadata_changes_between(one, one)


@pytest.mark.parametrize(
    ("finalized", "line"),
    [
        ({"metadata.version": 30, "kraft.version": 1}, None),
        ({"metadata.version": 30, "transaction.version": 2, "group.version": 0}, None),
        ({"metadata.version": 33, "share.version": 1}, None),
        (
            {"metadata.version": 34, "transaction.version": 3, "share.version": 1, "later.version": 1},
            (
                "kpybroker does not have these finalised features: later.version=1, metadata.version=34, "
                "transaction.version=3."
            ),
        ),
    ],
)
def test_a_refusal_names_what_is_missing_in_one_line(finalized: dict[str, int], line: str | None) -> None:
    assert features.refusal(finalized) == line


def test_a_remedy_is_a_command_that_kafka_accepts_or_says_that_there_is_none() -> None:
    assert features.remedy({"share.version": 9, "later.version": 1, "metadata.version": 30}) == (
        "Lower them with Apache Kafka first: kafka-features.sh --bootstrap-server HOST:PORT downgrade "
        f"--feature later.version=0 --feature share.version={features.SUPPORTED['share.version'].highest}"
    )
    assert features.remedy({"share.version": 9, "metadata.version": 99}) == (
        "Apache Kafka never lowers metadata.version as far, with --unsafe neither: this cluster stays with Apache "
        "Kafka, or with a version of kpybroker that has these levels"
    )
