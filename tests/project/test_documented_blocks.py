"""Every block that a document shows is right as far as it can be read: commands, programs, imports, options, configs.

Planted: one mistake in each place of each block of each document is found, and so is each word of the tour in README.md
that is not what is printed.
"""

import re
import sys
from collections.abc import Iterator

import pytest
import test_readme as readme
from documented import BLOCK, SKETCHES, mistakes
from sources import ROOT, project_files
from test_readme import address  # noqa: F401  a fixture

WRITTEN = ("docs/cli.md", "CHANGELOG.md")
"""Written from the commands, and on commands of earlier versions."""
DOCUMENTS = [
    str(path.relative_to(ROOT))
    for path in project_files()
    if path.suffix == ".md" and str(path.relative_to(ROOT)) not in {*WRITTEN, *SKETCHES}
]
PLACES = {
    "a command": (("sh", "console"), r"(?:(?<=^kpybroker )|(?<=^\$ kpybroker ))[a-z-]+(?= |$)"),
    "an option of a command": (("sh", "console"), r"^(?:\$ )?kpybroker [a-z -]*?--[a-z-]+"),
    "a module": (("python",), r"(?<=^from )[\w.]+(?= import)|(?<=^import )\w+"),
    "an imported name": (("python",), r"^from [\w.]+ import \w+"),
    "an option of a source": (("python",), r"(?<=\.option\(\")[\w.]+(?=\")"),
    "a config": (("properties",), r"^[a-z]+\.[a-z.]+(?==)"),
}
"""The languages of blocks, and a pattern of places in them: ``planted`` is put behind what is found there."""
LEAST = 3
"""The least number of such places, so that the pattern finds some."""


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_block_of_a_document_has_a_mistake(document: str) -> None:
    assert mistakes(text_of(document)) == []


def planted(text: str, languages: tuple[str, ...], pattern: str) -> Iterator[tuple[str, str]]:
    """The text with one mistake, for each place in its blocks, and the line with it."""
    for block in BLOCK.finditer(text):
        if block[2] not in languages:
            continue
        for found in re.finditer(pattern, block[0], re.MULTILINE):
            end = block.start() + found.end()
            changed = f"{text[:end]}planted{text[end:]}"
            yield changed, changed[text.rfind("\n", 0, end) + 1 : changed.find("\n", end)]


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_mistake_is_found_wherever_it_stands(place: str) -> None:
    count = 0
    for document in DOCUMENTS:
        for changed, line in planted(text_of(document), *PLACES[place]):
            count += 1
            assert mistakes(changed), f"{document}: {line}"
    assert count >= LEAST


def plant_word(shown: str) -> Iterator[str]:
    """An output with one word changed, for each word that does not vary from run to run."""
    for found in re.finditer(r"\S+", shown):
        changed = f"{shown[: found.start()]}{found[0]}x{shown[found.end() :]}"
        if readme.steady(changed) != readme.steady(shown):
            yield changed


def test_a_wrong_output_and_a_wrong_command_of_the_tour_are_found(address: str) -> None:  # noqa: F811
    for command, shown in readme.steps():
        with pytest.raises(AssertionError):
            readme.run(["sh", "-euc", re.sub(r"kpybroker \w+", "kpybroker planted", command)], address)
        printed = readme.steady(readme.run(["sh", "-euc", command], address, all_of_it=True))
        assert printed == readme.steady(shown)
        assert all(printed != readme.steady(wrong) for wrong in plant_word(shown))
    script = readme.block_with("python", "KafkaProducer").replace(readme.DEFAULT, address)
    for wrong in (script.replace("KafkaProducer", "KafkaProducers"), script.replace(".send(", ".sends(")):
        with pytest.raises(AssertionError):
            readme.run([sys.executable, "-c", wrong], address)
