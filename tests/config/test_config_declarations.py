"""The declarations are what Apache Kafka's jars define: types, defaults, valid values, modes, synonyms, texts."""

import json
from pathlib import Path

import pytest

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, GROUP_SYNONYMS
from kpybroker.config.quota_configs import QUOTA_CONFIGS
from kpybroker.config.synonyms import broker_synonyms
from kpybroker.config.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS
from kpybroker.machines.config_def import READ_ONLY, Definitions, to_text
from oracle.configs import dump
from oracle.render_configs import PACKAGE, render

pytestmark = pytest.mark.java

TABLES = {
    "broker": BROKER_CONFIGS,
    "quota": QUOTA_CONFIGS,
    "topic": TOPIC_CONFIGS,
    "group": GROUP_CONFIGS,
    "client-metrics": CLIENT_METRICS_CONFIGS,
}
UNIT_MS = {"": 1, "minutes": 60_000, "hours": 3_600_000}


@pytest.fixture(scope="module")
def kafka() -> dict:
    return dump()


def described(definitions: Definitions) -> list[tuple]:
    return [
        (
            key.name,
            key.type,
            key.importance,
            key.internal,
            not key.required,
            to_text(key.default),
            None if key.valid is None else str(key.valid),
        )
        for key in definitions.values()
    ]


@pytest.mark.parametrize("table", TABLES)
def test_every_key_is_defined_as_in_kafka(kafka, table):
    expected = [
        (
            key["name"],
            key["type"],
            key["importance"],
            key["internal"],
            key["hasDefault"],
            key.get("default"),
            key["validator"]["text"] if "validator" in key else None,
        )
        for key in kafka[table]
    ]
    assert described(TABLES[table]) == expected


def test_every_broker_config_is_updated_as_in_kafka(kafka):
    modes = {key.name: key.update for table in (BROKER_CONFIGS, QUOTA_CONFIGS) for key in table.values()}
    assert {name: mode for name, mode in modes.items() if mode != READ_ONLY} == kafka["dynamic"]


def test_defaults_come_from_the_same_broker_configs_as_in_kafka(kafka):
    expected = {
        name: tuple((synonym["name"], UNIT_MS[synonym["unit"]]) for synonym in synonyms)
        for name, synonyms in kafka["topicSynonyms"].items()
    }
    assert expected == TOPIC_SYNONYMS
    assert {name: synonym for name, synonym in kafka["groupSynonyms"].items() if synonym} == GROUP_SYNONYMS
    several = {name: broker_synonyms(name, match_listener_override=True) for name in BROKER_CONFIGS}
    assert {name: list(names) for name, names in several.items() if len(names) > 1} == kafka["brokerSynonyms"]


def test_texts_are_kafkas(kafka):
    texts = json.loads((PACKAGE / "documentation.json").read_text(encoding="utf-8"))
    expected = {"broker": kafka["broker"] + kafka["quota"]}
    expected |= {table: kafka[table] for table in ("topic", "group", "client-metrics")}
    assert texts == {table: {key["name"]: key["documentation"] for key in keys} for table, keys in expected.items()}


def test_generated_files_are_what_the_generator_writes():
    for name, content in render().items():
        assert Path(PACKAGE / name).read_text(encoding="utf-8") == content, f"run oracle.render_configs: {name} differs"
