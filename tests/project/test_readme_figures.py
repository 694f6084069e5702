"""The figures in README.md are those of the results file, all that were chosen, with machine, date and commit."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from sources import ROOT

from benchmarks import readme
from benchmarks.plots.beside import drawn

PUBLISHED = readme.parsed(json.loads(readme.RESULTS.read_text()))
TEXT = (ROOT / "README.md").read_text()


def test_the_table_is_what_the_results_file_says() -> None:
    assert readme.with_table(TEXT, PUBLISHED) == TEXT, "run: make tables"


@pytest.mark.parametrize("name", readme.PAPERS)
def test_the_pictures_are_drawn_from_the_results_file(name: str) -> None:
    written = (readme.PLACE / name).read_text()
    assert written == drawn(readme.picture(PUBLISHED), readme.PAPERS[name]), "run: make tables"
    assert f"docs/figures/{name}" in TEXT


def test_every_figure_that_was_chosen_is_in_the_picture_and_all_that_are_worse_are_in_the_table() -> None:
    picture = readme.picture(PUBLISHED)
    assert [bar.label for _, bars in picture.groups for bar in bars] == [choice.label for choice in readme.choices()]
    table = readme.table(PUBLISHED)
    for choice, comparison in PUBLISHED.found.items():
        if comparison.ratios.median < readme.REQUIRED_RATIO:
            assert f"| {choice.label} |" in table


def test_table_and_pictures_say_of_which_machine_day_and_commit_they_are() -> None:
    assert re.fullmatch(r"\d+ cores of .+, [\d.]+ GB, Linux \d+\.\d+, Python [\d.]+", PUBLISHED.machine)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d( to 20\d\d-\d\d-\d\d)?", PUBLISHED.dates)
    assert re.fullmatch(r"[0-9a-f]{10}", PUBLISHED.commit)
    table = readme.table(PUBLISHED)
    small_print = " ".join(readme.picture(PUBLISHED).small_print)
    for fact in (PUBLISHED.machine, PUBLISHED.dates, PUBLISHED.commit):
        assert fact in table
        assert fact in small_print


def test_the_results_file_is_read_as_it_is_written() -> None:
    assert readme.written(PUBLISHED) == readme.RESULTS.read_text()


def test_a_picture_is_an_svg_file_that_stands_alone() -> None:
    root = ElementTree.parse(readme.PLACE / "ratios-light.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {"width", "height", "viewBox"} <= set(root.keys())
