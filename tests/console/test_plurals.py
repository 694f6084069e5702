"""Every page with 0, 1 and 2 of everything says "1 record" and "2 records"."""

import re

import pytest
from made_values import WORDS, rendered

from kpybroker.monitoring.console.page import ConsolePage
from kpybroker.monitoring.console.pages import PAGES

INLINE = re.compile(r"</?(a|b|code|em|small|span|strong)\b[^>]*>")
NO_NOUNS = {"B", "KiB", "MiB", "ms", "s", "min", "of", "for", "ago", "unknown", "is", "has", "was", "this", "times"}
"""Words behind a number that are no counted nouns. A number of ``times`` is a ratio: 1 of 5 times."""
LATER = {
    *WORDS,
    *("without", "on", "more", "left", "found", "in", "at", "from", "to", "and", "by", "read", "per", "late"),
    *("earlier", "stuck", "knows", "falls"),
}


def counted_words(page: str, number: int) -> set[str]:
    """The words that follow a number in the text of a page."""
    text = re.sub(r"<[^>]+>", "\n", INLINE.sub("", page))
    return set(re.findall(rf"(?<![\w.\u202f–-]){number} ([A-Za-z]+)", text)) - NO_NOUNS - LATER


def wrong_plurals(one: str, others: dict[int, str]) -> set[str]:
    """The nouns that have the same form for 1 and for another number, or a plural for 1."""
    single = counted_words(one, 1)
    same = {f"{number} {noun}" for number, page in others.items() for noun in counted_words(page, number) & single}
    return {f"1 {noun}" for noun in single if noun.endswith("s")} | same


@pytest.mark.parametrize("page", [each for each in PAGES if each.template], ids=lambda page: page.path)
def test_nouns_fit_their_numbers(page: ConsolePage) -> None:
    for word in WORDS:
        found = wrong_plurals(rendered(page, 1, word), {number: rendered(page, number, word) for number in (0, 2)})
        assert found == set(), f"use counted() in {page.template}"


def test_wrong_plurals_are_found() -> None:
    assert wrong_plurals("<p>1 <b>ids</b></p>", {2: "<p>2 id</p>"}) == {"1 ids"}
    assert wrong_plurals("<p>1 record</p>", {2: "<p>2 record</p>"}) == {"2 record"}
    assert wrong_plurals("<p>1 record</p>", {0: "<p>0 records</p>", 2: "<p>2 records</p>"}) == set()
