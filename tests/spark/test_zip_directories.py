"""Zip archives on the import path: their directories are read again only when the archive has changed."""

import importlib
import sys
import zipimport
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from kpybroker.spark.zip_directories import UnchangedZip, keep_zip_directories


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "zipped.zip"
    with ZipFile(path, "w") as made:
        made.writestr("zipped_once/__init__.py", "")
        made.writestr("zipped_once/inner.py", "NUMBER = 1\n")
    monkeypatch.syspath_prepend(str(path))
    importlib.import_module("zipped_once.inner")
    yield path
    for name in [name for name in sys.modules if name.startswith("zipped_")]:
        del sys.modules[name]


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []
    original = zipimport._read_directory  # type: ignore[attr-defined]

    def counted(path: str) -> object:
        read.append(path)
        return original(path)

    monkeypatch.setattr(zipimport, "_read_directory", counted)
    return read


def test_an_archive_that_has_not_changed_is_not_read_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_zip_directories()
    read = reads(monkeypatch)
    importlib.invalidate_caches()
    assert str(archive) not in read
    assert all(type(found) is not zipimport.zipimporter for found in sys.path_importer_cache.values())


def test_a_module_that_an_archive_gets_later_is_found(archive: Path) -> None:
    keep_zip_directories()
    with ZipFile(archive, "a") as made:
        made.writestr("zipped_later.py", "NUMBER = 2\n")
    importlib.invalidate_caches()
    assert importlib.import_module("zipped_later").NUMBER == 2


def test_a_deleted_archive_does_no_harm(archive: Path) -> None:
    keep_zip_directories()
    archive.unlink()
    importlib.invalidate_caches()
    keep_zip_directories()
    assert isinstance(sys.path_importer_cache[str(archive)], UnchangedZip)
