"""The modules that CPython brings, and its headers, of any version: those of a Python of this machine, or Debian's.

On all platforms here the numbers in pyconfig.h that headers read are the same: integers have the same sizes.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from release.cross.fetching import CannotBeHad, debian, kept
from release.cross.targets import VERSION

SUITES = {"3.13": "trixie", "3.14": "sid"}
"""The suites of Debian that have a version."""
MULTIARCH = "x86_64-linux-gnu"
ASKED = "import sysconfig; print(sysconfig.get_path('stdlib')); print(sysconfig.get_path('include'))"
LEFT_OUT = ("__pycache__", "*-packages", "config-*", "ensurepip", "idlelib", "lib-dynload", "test", "tests", "tkinter")


def library(version: str) -> Path:
    """A directory with the modules in ``lib``, without those that are compiled, and the headers in ``include``."""

    def copy(directory: Path) -> None:
        modules, headers = next(on_this_machine(version), None) or from_debian(version)
        ignored = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(modules, directory / "lib", ignore=ignored, ignore_dangling_symlinks=True)
        shutil.copytree(headers, directory / "include")
        # Debian has a pyconfig.h of each platform, and one that includes the right one.
        own = headers.parent / MULTIARCH / headers.name / "pyconfig.h"
        if own.exists():
            shutil.copyfile(own, directory / "include" / "pyconfig.h")

    return kept(f"python{version}-library", copy)


def on_this_machine(version: str) -> Iterator[tuple[Path, Path]]:
    """The directories of modules and of headers that Pythons of this machine have: this one, pyenv's, others."""
    programs = [sys.executable] if version == VERSION else []
    released = re.compile(re.escape(version) + r"\.\d+")
    homes = (home for home in Path.home().glob(".pyenv/versions/*") if released.fullmatch(home.name))
    programs += [str(home / "bin" / "python") for home in homes]
    programs += [path for path in (shutil.which(f"python{version}"),) if path]
    for program in programs:
        asked = subprocess.run([program, "-c", ASKED], capture_output=True, text=True, check=False)
        directories = [Path(line) for line in asked.stdout.splitlines()]
        if len(directories) == 2 and (directories[1] / "Python.h").exists():
            yield directories[0], directories[1]


def from_debian(version: str) -> tuple[Path, Path]:
    """The directories of modules and of headers that packages of a newer Debian hold.

    Raises:
        CannotBeHad: Debian has not this version.
    """
    if version not in SUITES:
        raise CannotBeHad(f"pyenv has no CPython {version} on this machine, and Debian has none: install it by pyenv")
    packages = tuple(f"libpython{version}-{part}" for part in ("minimal", "stdlib", "dev"))
    root = debian(f"python{version}-debian", "amd64", alone=packages, suite=SUITES[version])
    return root / "usr" / "lib" / f"python{version}", root / "usr" / "include" / f"python{version}"
