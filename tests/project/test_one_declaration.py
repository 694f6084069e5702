"""A fact has one place: that of an API is in the table of APIs, that of a config in its row. So a new one changes few
files, which are named in the recipes of CONTRIBUTING.md.
"""

import ast
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest
from sources import python_files, relative, tree_of

from kpybroker.config import own_configs
from kpybroker.config.own_configs import OWN_CONFIGS
from kpybroker.machines.apis import APIS
from kpywire import api

PRODUCT = ("kpybroker", "pyspark_kpybroker", "storage/kpystorage")
TABLES = {"kpybroker/machines/apis.py", "kpybroker/machines/zookeeper/broker/apis.py"}
"""The table of APIs, and that of a Kafka of the past."""
MOST_APIS = 8
"""The most APIs that another module names. More of them are a column of the table."""
NEWER_THAN = api.DESCRIBE_CLUSTER
MOST_FILES_OF_AN_API = 3
MOST_FILES_OF_A_CONFIG = 4
"""Its row, and what acts on it, such as a machine's settings and what makes them."""
OUTSIDE = ("kpybroker/cli/", "kpybroker/testing/", "kpybroker/pipeline/")
"""Programs that set or read configs of a broker, and are no part of one."""
SETTINGS = ("GroupSettings", "QuorumConfig")


class NamesOfAFile(NamedTuple):
    """The names that matter here in a module of the product."""

    apis: set[str]
    """The API keys, such as FETCH."""
    texts: set[str]
    """The strings and the plain names."""
    called: set[str]


@cache
def product_files() -> dict[str, NamesOfAFile]:
    keys = {name for name, value in vars(api).items() if isinstance(value, int) and value in api.API_KEYS}
    files = {}
    for path in python_files(*PRODUCT):
        names = NamesOfAFile(set(), set(), set())
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.Attribute(value=ast.Name(id="api"), attr=attr) if attr in keys:
                    names.apis.add(attr)
                case ast.Constant(value=str() as text) | ast.Name(id=text):
                    names.texts.add(text)
                case ast.Call(func=ast.Name(id=function)):
                    names.called.add(function)
        files[relative(path)] = names
    return files


def test_facts_of_apis_are_columns_of_one_table() -> None:
    lists = {path: len(names.apis) for path, names in product_files().items() if path not in TABLES}
    assert {path: count for path, count in lists.items() if count > MOST_APIS} == {}


def test_a_new_api_is_named_in_few_product_files() -> None:
    """In the table, and where it is treated in a way that no other API is."""
    files = Counter(each for path, names in product_files().items() if "zookeeper" not in path for each in names.apis)
    newer = {name: count for name, count in files.items() if getattr(api, name) > NEWER_THAN}
    assert newer
    assert {name: count for name, count in newer.items() if count > MOST_FILES_OF_AN_API} == {}
    assert len([count for count in newer.values() if count > 1]) <= len(newer) // 8


def test_every_api_of_the_table_is_served_where_kafka_serves_it() -> None:
    for key, served in APIS.items():
        listeners = api.API_KEYS[key].listeners
        assert (served.at_broker is not None) == ("broker" in listeners), api.API_KEYS[key].name
        assert served.at_controller is None or "controller" in listeners, api.API_KEYS[key].name


@pytest.mark.parametrize("name", OWN_CONFIGS)
def test_a_config_is_named_by_its_row_and_what_acts_on_it(name: str) -> None:
    spelled = {name} | {each for each, value in vars(own_configs).items() if value == name}
    named = [path for path, names in product_files().items() if spelled & names.texts and not path.startswith(OUTSIDE)]
    assert "kpybroker/config/own_configs.py" in named
    assert 2 <= len(named) <= MOST_FILES_OF_A_CONFIG, named


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_settings_of_a_machine_are_made_in_one_place(settings: str) -> None:
    makers = [path for path, names in product_files().items() if settings in names.called]
    assert len(makers) == 1, makers
