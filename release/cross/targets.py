"""The platforms that a wheel is compiled for on this machine, and a Python of each that runs here.

The Python has the version of the one that runs this program: mypyc writes C for its own version.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from release.cross.fetching import debian
from release.cross.musl_python import built_python

VERSION = "{}.{}".format(*sys.version_info)


@dataclass(frozen=True)
class TargetPython:
    """A Python of another platform: the words that start it, and where its headers are.

    It is started with -S, without which it finds this system's own packages.
    """

    command: tuple[Path | str, ...]
    headers: tuple[Path, ...]


@dataclass(frozen=True)
class Target:
    """A platform, as the compiler, Python's modules and wheels call it."""

    triple: str
    suffix: str
    platforms: tuple[str, ...]
    """The first is the wheel's own tag. The others are older ones, whose wheels run there too."""
    python: Callable[[], TargetPython]
    compiled_by_pip: tuple[str, ...] = ()
    """Dependencies that have no wheel there."""


def debian_on_arm64() -> TargetPython:
    """Debian's Python for arm64, which QEMU runs process by process on x86-64."""
    qemu = debian("qemu", "amd64", alone=("qemu-user-static",)) / "usr" / "bin" / "qemu-aarch64-static"
    needed = (f"python{VERSION}-minimal", f"libpython{VERSION}-stdlib")
    root = debian(f"python{VERSION}-arm64", "arm64", packages=needed, alone=(f"libpython{VERSION}-dev",))
    includes = root / "usr" / "include"
    command = (qemu, "-L", root, root / "usr" / "bin" / f"python{VERSION}", "-S")
    return TargetPython(command, (includes / f"python{VERSION}", includes))


def built_for_musl() -> TargetPython:
    """CPython built for musl, which runs here as it is."""
    directory = built_python(VERSION)
    return TargetPython((directory / "python", "-S"), (directory / "Include", directory))


CPYTHON = "cpython-{}{}".format(*sys.version_info)
TARGETS = {
    "manylinux-aarch64": Target(
        "aarch64-linux-gnu.2.28",
        f".{CPYTHON}-aarch64-linux-gnu.so",
        ("manylinux_2_28_aarch64", "manylinux_2_26_aarch64", "manylinux2014_aarch64"),
        debian_on_arm64,
    ),
    "musllinux-x86_64": Target(
        "x86_64-linux-musl",
        f".{CPYTHON}-x86_64-linux-musl.so",
        ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64"),
        built_for_musl,
        compiled_by_pip=("google-re2",),
    ),
}
