"""The claims of the documents: what they name is there, and what is made from the code is up to date."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from sources import ROOT, SHIPPED, project_files, python_files, relative, tree_of

from kpybroker.requests.handlers import NOT_YET, OF_ZOOKEEPER_MODE, SERVED
from kpywire.api import API_KEYS
from release.documents import kips
from release.documents.__main__ import PAGES

DOCUMENTS = [path for path in project_files() if path.suffix == ".md"]
LINK = re.compile(r"(?:\[[^\]]*\]\(|\b(?:src|srcset)=\")([^)\s\"]+)[)\"]")
CODE = re.compile(r"`([^`\n]+)`")
HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TOP_LEVEL = {path.relative_to(ROOT).parts[0] for path in project_files()}
PYPI_NAMES = {"google-re2": "re2", "kafka-python": "kafka", "python-snappy": "snappy"}

by_name = pytest.mark.parametrize("document", DOCUMENTS, ids=relative)


def anchors(text: str) -> set[str]:
    """The anchors of every heading, as GitHub makes them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(FENCE.sub("", text)))
    return {heading.strip().replace(" ", "-") for heading in plain}


def broken_link(document: Path, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return False
    name, _, anchor = target.partition("#")
    path = (document.parent / name).resolve() if name else document
    if not path.exists():
        return True
    return bool(anchor) and path.suffix == ".md" and anchor not in anchors(path.read_text())


def names_a_missing_file(document: Path, code: str) -> bool:
    """Whether a piece of code is the path of something in this project that is not there."""
    if not re.fullmatch(r"[\w.*/<>-]+", code) or re.search(r"[<>*]", code) or "/" not in code:
        return False
    if code.split("/")[0] not in TOP_LEVEL:
        return False
    return not (ROOT / code).exists() and not (document.parent / code).exists()


@by_name
def test_every_link_leads_somewhere(document: Path) -> None:
    assert not [target for target in LINK.findall(document.read_text()) if broken_link(document, target)]


@by_name
def test_every_file_that_is_named_exists(document: Path) -> None:
    named = CODE.findall(FENCE.sub("", document.read_text()))
    assert not [code for code in named if names_a_missing_file(document, code)]


@by_name
def test_every_make_target_that_is_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = "\n".join(CODE.findall(document.read_text()) + FENCE.findall(document.read_text()))
    named = set(re.findall(r"^ *make ([a-z-]+)", code, re.MULTILINE))
    assert named <= targets


def project() -> dict[str, Any]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        found: dict[str, Any] = tomllib.load(file)["project"]
    return found


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~;\[ ]", requirement)[0] for requirement in requirements}


def test_every_dependency_has_its_reason() -> None:
    extras = project()["optional-dependencies"]
    wanted = names_of(project()["dependencies"] + [name for extra in extras.values() for name in extra])
    rows = re.findall(r"^\|((?: `[\w-]+`,?)+) \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
    assert wanted == wanted & explained


def test_every_dependency_is_imported() -> None:
    """A package that nobody imports need not be installed."""
    imports = set()
    for path in python_files(*SHIPPED):
        imports |= set(re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(), re.MULTILINE))
    wanted = {PYPI_NAMES.get(name, name).replace("-", "_") for name in names_of(project()["dependencies"])}
    assert wanted <= imports


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_page_that_is_made_from_the_code_is_up_to_date(page: Path) -> None:
    assert page.read_text() == PAGES[page](), "run: make tables"


def test_no_module_of_the_wheel_writes_a_document() -> None:
    """Documents are made by `release/documents`, which stays in the checkout."""
    named = [
        f"{relative(path)}:{node.lineno}"
        for path in python_files(*SHIPPED)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"docs/.+\.md", node.value)
    ]
    assert not named


def test_every_api_of_kafka_is_served() -> None:
    """Or it is in `NOT_YET`, which has a row only for what Kafka serves and this broker does not."""
    of_kafka = {api.module: api for api in API_KEYS.values() if api.key not in OF_ZOOKEEPER_MODE}
    missing = {name for name, each in NOT_YET.items() if each.newest is None}
    assert of_kafka.keys() == {*SERVED, *missing}
    assert not missing & set(SERVED)
    for name, each in NOT_YET.items():
        assert each.reason
        assert each.newest is None or of_kafka[name].min_version <= each.newest < of_kafka[name].max_version, name


def test_every_kip_that_the_code_names_is_in_the_table() -> None:
    assert kips.KIPS.keys() == kips.named_in_code().keys()
