"""The versions of Spark that the suite knows: the same everywhere, and refused with a reason where one cannot run."""

import re
import sys
from pathlib import Path

import pytest

from support import spark_versions
from support.spark_versions import VERSIONS, UnavailableError, use

ROOT = Path(__file__).resolve().parents[2]


def test_the_makefile_and_the_page_for_people_name_these_versions() -> None:
    named = re.search(r"^SPARKS := (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert named is not None
    connected = {name: spark for name, spark in VERSIONS.items() if spark.token_provider is not None}
    assert named[1].split() == list(connected)
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| [\d.]+ \| ([\d, ]+) \|", (ROOT / "docs/spark.md").read_text(), re.M)
    notified = [(spark.version, spark.scala, ", ".join(map(str, sorted(spark.javas)))) for spark in connected.values()]
    assert rows == notified


def test_the_installed_version_is_one_of_them() -> None:
    pinned = set(re.findall(r'"pyspark==([\d.]+)"', (ROOT / "pyproject.toml").read_text()))
    assert pinned <= set(VERSIONS)
    assert len(pinned) == 1


def test_a_version_that_is_too_old_for_this_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    with pytest.raises(UnavailableError, match=r"Spark 3.5.1 is for Python 3.11 at most"):
        use("3.5.1")


def test_a_version_that_does_not_know_this_java_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_versions, "java_version", lambda: 99)
    before = list(sys.path)
    with pytest.raises(UnavailableError, match=r"Spark 4.2.0 is for Java 17, 21, 25, not 99"):
        use("4.2.0")
    assert sys.path == before


def test_an_untested_spark_version_is_refused() -> None:
    with pytest.raises(
        UnavailableError, match=r"Spark 2.4.8 is not one that the suite knows: 3.5.1, 4.0.0, 4.2.0, 4.3.0"
    ):
        use("2.4.8")


def test_a_version_that_pip_cannot_find_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(spark_versions, "BUILD", tmp_path)
    monkeypatch.setattr(spark_versions, "java_version", lambda: 17)
    monkeypatch.setattr(spark_versions, "installed", lambda: "4.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    before = list(sys.path)
    with pytest.raises(UnavailableError, match=r"pip could not install pyspark==4.2.0: ERROR: Could not find"):
        use("4.2.0")
    assert sys.path == before
