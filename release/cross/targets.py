"""The platforms that wheels are compiled for here, and their names for the compiler, for modules and for pip."""

import sys
from dataclasses import dataclass

VERSION = "{}.{}".format(*sys.version_info)
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of CPython that wheels are compiled for."""


@dataclass(frozen=True)
class Target:
    """A platform."""

    name: str
    triple: str
    multiarch: str
    """The end of the names of Python's modules."""
    platforms: tuple[str, ...]
    """The first is the wheel's own tag. The others are older ones, whose wheels run there too."""
    compiled_by_pip: tuple[str, ...] = ()
    """Dependencies that have no wheel there."""

    @property
    def machine(self) -> str:
        return self.triple.partition("-")[0]

    @property
    def has_musl(self) -> bool:
        return self.multiarch.endswith("musl")

    def suffix(self, version: str) -> str:
        """The suffix of compiled modules of a version of CPython."""
        return f".cpython-{version.replace('.', '')}-{self.multiarch}.so"

    def choosing(self, version: str) -> tuple[str, ...]:
        """Options with which pip takes wheels for this platform and version instead of its own."""
        return ("--python-version", version, *(word for tag in self.platforms for word in ("--platform", tag)))


def with_glibc(machine: str) -> Target:
    """Linux with glibc 2.28 or newer."""
    tags = tuple(f"{name}_{machine}" for name in ("manylinux_2_28", "manylinux_2_26", "manylinux2014"))
    return Target(f"manylinux-{machine}", f"{machine}-linux-gnu.2.28", f"{machine}-linux-gnu", tags)


def with_musl(machine: str) -> Target:
    """Linux with musl 1.2 or newer, such as Alpine."""
    tags = (f"musllinux_1_2_{machine}", f"musllinux_1_1_{machine}")
    triple = f"{machine}-linux-musl"
    return Target(f"musllinux-{machine}", triple, triple, tags, compiled_by_pip=("google-re2",))


def with_macos(name: str, machine: str) -> Target:
    """MacOS 12 or newer. The tags are those of the universal wheels whose CPython the modules are linked with."""
    tags = tuple(f"macosx_10_{minor}_universal2" for minor in (15, 13, 9))
    return Target(f"macosx-{name}", f"{machine}-macos.12.0", "darwin", tags)


TARGETS = {
    target.name: target
    for target in (with_glibc("x86_64"), with_glibc("aarch64"), with_musl("x86_64"), with_musl("aarch64"))
}
"""The platforms whose wheels are compiled here, and tried."""
ONLY_LINKED = {target.name: target for target in (with_macos("arm64", "aarch64"), with_macos("x86_64", "x86_64"))}
"""The platforms whose modules are compiled and linked here, and nothing more: no Python of theirs runs here."""
