"""The configs that docs/configs.md calls honoured are those of the code."""

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.honoured import HONOURED, HONOURED_TOPIC, NEVER
from kpybroker.config.quota_configs import QUOTA_CONFIGS
from kpybroker.config.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS


def test_only_configs_that_exist_are_honoured():
    assert {*BROKER_CONFIGS, *QUOTA_CONFIGS} >= HONOURED
    assert set(BROKER_CONFIGS) >= set(NEVER)
    assert set(TOPIC_CONFIGS) >= HONOURED_TOPIC
    assert not HONOURED & set(NEVER)


def test_a_honoured_topic_config_is_honoured_on_the_broker_too():
    synonyms = {name for topic in HONOURED_TOPIC for name, _ in TOPIC_SYNONYMS.get(topic, ())}
    assert synonyms <= HONOURED
