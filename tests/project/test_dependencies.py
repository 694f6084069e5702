"""The libraries: no version with a known hole satisfies pyproject.toml, and releases pin all that they install."""

import re
import tomllib
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "release" / "requirements.lock").read_text()
ENTRIES = re.split(r"\n(?=\S)", LOCK.strip())
"""A library, its version and the hashes of all files of that version."""
SHOWN = re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \| (.+) \|$", (ROOT / "docs" / "security.md").read_text(), re.MULTILINE)
"""The rows of the table of floors: library, version, advisories."""
OF_RELEASES = ("security", "schemas", "remote")
"""The extras that releases install: TLS and records by their schemas for the console, and the stores of tiers."""
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def locked() -> dict[str, Version]:
    requirements = [Requirement(entry.partition("\\")[0].strip()) for entry in ENTRIES]
    return {canonicalize_name(each.name): Version(str(each.specifier).removeprefix("==")) for each in requirements}


def declared() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for texts in (PROJECT["dependencies"], *extras) for text in texts]


def test_releases_install_the_dependencies_and_all_that_they_need() -> None:
    pinned = locked()
    extras = (PROJECT["optional-dependencies"][name] for name in OF_RELEASES)
    waiting = [Requirement(text) for texts in (PROJECT["dependencies"], *extras) for text in texts]
    needed = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"make lock: {requirement} is not in it"
        assert pinned[name] in requirement.specifier, f"make lock: {pinned[name]} is not {requirement}"
        if name not in needed:
            needed.add(name)
            further = [Requirement(text) for text in metadata.requires(name) or ()]
            waiting += [each for each in further if each.marker is None or each.marker.evaluate({"extra": ""})]
    assert set(pinned) == needed, "nothing else is installed"


def test_each_is_pinned_by_its_hashes_and_the_lock_names_no_registry() -> None:
    for entry in ENTRIES:
        first, *hashes = [line.strip().removesuffix("\\").strip() for line in entry.splitlines()]
        assert re.match(r"[\w.-]+==[\w.]+( ; .+)?$", first), first
        assert hashes
        assert all(HASH.fullmatch(each) for each in hashes), first
    assert "://" not in LOCK
    assert not re.search(r"^\s*(-i|-f|--(?!hash))", LOCK, re.MULTILINE)


@pytest.mark.parametrize("place", ["docker/Dockerfile", "Makefile"])
def test_the_image_and_the_package_install_from_the_lock_alone(place: str) -> None:
    text = (ROOT / place).read_text()
    (by_lock,) = [line for line in text.splitlines() if "release/requirements.lock" in line and "pip wheel" in line]
    assert "--require-hashes" in by_lock
    for line in text.splitlines():
        if "pip wheel" in line:
            assert "--no-deps" in line, line


def test_the_package_installs_the_extras_of_releases() -> None:
    extras = ",".join(OF_RELEASES)
    assert f"'kpybroker[{extras}]'" in (ROOT / "release" / "debian.py").read_text()
    wanted = " ".join(f"--extra {name}" for name in OF_RELEASES)
    assert wanted in (ROOT / "Makefile").read_text()


def test_each_floor_is_above_the_holes_that_the_document_names() -> None:
    floors = {name: Version(version) for name, version, _ in SHOWN}
    assert len(floors) >= 8
    assert all(re.search(r"CVE-\d{4}-\d+|GHSA-", advisories) for _, _, advisories in SHOWN)
    found = {}
    for requirement in declared():
        name = canonicalize_name(requirement.name)
        if name in floors:
            lowest = min(Version(each.version) for each in requirement.specifier if each.operator in (">=", "=="))
            assert lowest >= floors[name], requirement
            found[name] = lowest
    assert found.keys() == floors.keys()
