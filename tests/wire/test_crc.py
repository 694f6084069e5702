"""The checksum is the package's, without what else the package brings."""

import subprocess
import sys

import crc32c as package
import pytest

from kpywire import crc


def test_the_checksum_is_the_packages() -> None:
    for data in (b"", b"123456789", bytes(range(256)) * 100):
        assert crc.crc32c(data) == package.crc32c(data)
        assert crc.crc32c(memoryview(data)) == package.crc32c(data)
    assert crc.crc32c(b"123456789") == 0xE3069283


def test_only_the_extension_is_loaded() -> None:
    program = "import sys, kpywire.crc; print('crc32c' in sys.modules, 'importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_without_the_extension_where_it_was_the_package_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc.PathFinder, "find_spec", lambda *_: None)
    assert crc._extension() is None
    assert crc._whole()(b"123456789") == 0xE3069283
