"""The rules of language that a program can check: "How we write" in CONTRIBUTING.md, whose table has the words.

They hold for every file that we write, with code, comments, log lines and help texts, and not for Kafka's own texts.
"""

import functools
import re
from pathlib import Path

import pytest
from sources import ROOT, python_files, relative, text_files

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
LINE_CHARACTERS = 128
NOT_OURS = re.compile(
    r"wire/kpywire/(messages|\w+_records)/|kpybroker/config/(broker|group|quota|topic)_configs\.py|LICENSE"
)
GENERATED = re.compile(r"docs/(cli|configs|image|metrics|parity|support)\.md")
PROSE = {"", ".md", ".py", ".sh", ".java", ".c", ".yml", ".yaml", ".toml"}
NO_SUBJECT = re.compile(
    r'"""((?:Of|What|Whose|Who|As|That|Those|When|Where|(?:At|By|For|From|In|On|Over|To|Under|With) '
    r"(?:which|what|whom|whose))\b.*)"
)
END_OF_FIGURES = "<!-- end of figures -->"


@functools.cache
def replacements() -> dict[str, str]:
    """Each word or phrase of the table in CONTRIBUTING.md that is not used, with the one to write."""
    section = CONTRIBUTING.read_text().partition("## How we write")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    return {phrase: plain for phrases, plain in rows if phrases[0] != "-" for phrase in phrases.split(", ")}


@functools.cache
def needles() -> list[str]:
    """The words in a form that a file is searched for quickly; short ones also occur within other words."""
    return [phrase if len(phrase) > 3 else f" {phrase} " for phrase in replacements()]


@functools.cache
def one_of_them() -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, replacements()))})\b", re.IGNORECASE)


def words_found(place: str, text: str) -> list[str]:
    """One line for each word of the table: the place, the word, and what to write."""
    lowered = text.lower().replace("\n", " ")
    if not any(needle in lowered for needle in needles()):
        return []
    return [
        f"{place}:{number}: {found[0]!r}: write {replacements()[found[0].lower()]}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in one_of_them().finditer(line)
    ]


def subjects_missing(place: str, text: str) -> list[str]:
    """One line for each docstring that begins with a relative clause or a preposition."""
    return [
        f"{place}:{text.count(chr(10), 0, found.start()) + 1}: {found[1].split()[0]!r}: begin with the thing itself "
        f'("The offsets that ...") or with a verb ("Read ..."): {found[1][:60]}'
        for found in NO_SUBJECT.finditer(text)
        if text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip() in ("", "r", "R")
    ]


def long_lines(place: str, text: str) -> list[str]:
    """One line for each long line of a document. Tables, code, figures and single words such as links may be long."""
    found = []
    is_code = is_made = False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if line.startswith("<!-- "):
            is_made = line != END_OF_FIGURES
        if is_code or is_made or line.lstrip().startswith(("|", "![", "[![", "<")):
            continue
        if len(line) > LINE_CHARACTERS and len(line.lstrip(" -*").split()) > 1:
            found.append(f"{place}:{number}: {len(line)} characters: break it before {LINE_CHARACTERS}")
    return found


def written_files() -> list[Path]:
    left_out = {CONTRIBUTING, Path(__file__).resolve()}
    return [
        path
        for path in text_files()
        if path.suffix in PROSE and path not in left_out and not NOT_OURS.match(relative(path))
    ]


def test_plain_words_are_used() -> None:
    found = [line for path in written_files() for line in words_found(relative(path), path.read_text(errors="replace"))]
    assert not found, "\n".join(found)


def test_a_docstring_has_a_subject() -> None:
    """It says what a thing is, or what a function does."""
    found = [line for path in python_files() for line in subjects_missing(relative(path), path.read_text())]
    assert not found, "\n".join(found)


def test_lines_of_documents_are_short() -> None:
    documents = [path for path in text_files() if path.suffix == ".md" and not GENERATED.fullmatch(relative(path))]
    found = [line for path in documents for line in long_lines(relative(path), path.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        ("The log is made anew.", "a.md:1: 'anew': write again"),
        ("Whoever reads it", "a.md:1: 'Whoever': write the thing itself"),
        ("begin_anew(), renewed, besides_that", None),
        ("It is read again.", None),
    ],
)
def test_a_word_is_named_with_its_place_and_what_to_write(line: str, reported: str | None) -> None:
    found = words_found("a.md", line)
    assert [each[: len(reported)] for each in found] == [reported] if reported else not found


@pytest.mark.parametrize(
    ("docstring", "is_found"),
    [
        ('"""Of the requests, those over which it waits."""', True),
        ('    r"""Where the log ends."""', True),
        ('    """In which directory it lies."""', True),
        ('    """The offset where the log ends."""', False),
        ('    """Whether the log ends."""', False),
        ('    """In-sync replicas."""', False),
    ],
)
def test_a_docstring_without_a_subject_is_named(docstring: str, *, is_found: bool) -> None:
    assert bool(subjects_missing("a.py", docstring)) == is_found


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("word " * 30, True),
        ("| " + "word " * 30, False),
        ("```\n" + "word " * 30 + "\n```", False),
        ("x" * 200, False),
    ],
)
def test_a_long_line_of_a_document_is_named(line: str, *, is_found: bool) -> None:
    assert bool(long_lines("a.md", line)) == is_found
