"""The guesses of tools in docs/from-apache-kafka.md follow from what is served."""

import re

import pytest

from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.requests.handlers import SERVED
from kpywire.api import API_KEYS
from tests.project.sources import ROOT

PAGE = (ROOT / "docs" / "from-apache-kafka.md").read_text()
GUESSED_WITHOUT = {
    49: "between v2.5 and v2.6",
    51: "between v2.6 and v2.7",
    68: "between v3.6 and v3.7",
    69: "between v3.7 and v3.8",
    76: "at least v3.9",
    88: "at least v3.9",
}
"""kadm's guess by the oldest key that is missing; the foreign suite kadm measures it."""


def test_the_documented_guess_of_kadm_is_that_for_a_broker_without_gaps() -> None:
    assert all(API_KEYS[key].module in SERVED for key in GUESSED_WITHOUT)
    row = re.search(r"^\| franz-go's `kadm`.*\| `(.*)` \|$", PAGE, re.MULTILINE)
    assert row is not None
    assert f"| none of them, as today | `{row[1]}` |" in PAGE


@pytest.mark.parametrize("key", GUESSED_WITHOUT)
def test_the_page_has_each_key_that_decides(key: int) -> None:
    row = re.search(rf"^\| {API_KEYS[key].name} \({key}\).*\| `(.*)` \|$", PAGE, re.MULTILINE)
    assert row is not None
    assert row[1] == GUESSED_WITHOUT[key]


def test_the_level_that_kafka_ui_shows_is_the_release() -> None:
    assert SUPPORTED[metadata_version.FEATURE_NAME].highest == metadata_version.LATEST == 33
