"""The tools for wheels of other platforms, and sources: fetched into build/cross, where they stay, not installed.

Debian's packages come by apt-get, which checks their signatures, with lists and a cache of its own. Packages of the
package index come by their checksums, which lie in pinned/.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "cross"
PINNED = Path(__file__).parent / "pinned"
MAKING: defaultdict[str, Lock] = defaultdict(Lock)


class CannotBeHad(Exception):
    """Something that a build needs is not here, and cannot be fetched; the text says what and why."""


def ran(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """Run a command to its end.

    Raises:
        CannotBeHad: it is not there, or it failed; with the last lines of what it said.
    """
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        raise CannotBeHad(f"{words[0]} is not installed")
    done = subprocess.run(
        words,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise CannotBeHad("\n".join((*done.stdout.splitlines()[-30:], f"{words[0]} failed: {' '.join(words)[:300]}")))


def kept(name: str, make: Callable[[Path], None]) -> Path:
    """A directory under build/cross, made once. One that was not finished is begun again."""
    directory = KEPT / name
    complete = directory / ".complete"
    with MAKING[name]:
        if not complete.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            make(directory)
            complete.touch()
    return directory


def from_index(package: str, name: str = "", *options: str) -> Path:
    """A directory with a package of the package index, whose version and checksums are pinned."""

    def fetch(directory: Path) -> None:
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", *options)
        ran(*pip, "--only-binary=:all:", "--target", directory, "-r", PINNED / f"{package}.txt")

    return kept(name or package, fetch)


def zig() -> Path:
    """The compiler: ``zig cc`` takes the options of clang, and ``-target`` a platform."""
    return from_index("ziglang", "zig") / "ziglang" / "zig"


def zig_environment() -> dict[str, str]:
    """The environment in which zig keeps what it has compiled under build/cross."""
    cache = str(KEPT / "zig-cache")
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def debian(
    name: str, architecture: str, *, packages: tuple[str, ...] = (), alone: tuple[str, ...] = (), suite: str = ""
) -> Path:
    """A directory with packages of an architecture and all that they need, and with packages ``alone``, unpacked.

    They are those of this machine's release of Debian, or of another suite.
    """

    def fetch(directory: Path) -> None:
        with TemporaryDirectory(prefix="kpybroker-") as state:
            apt = own_apt(Path(state), architecture, suite=suite)
            archives = Path(state, "archives")
            ran(*apt, "update")
            if packages:
                ran(*apt, "install", "--yes", "--download-only", "--no-install-recommends", *packages)
            if alone:
                ran(*apt, "download", *alone, cwd=archives)
            for archive in sorted(archives.glob("*.deb")):
                ran("dpkg-deb", "--extract", archive, directory)

    return kept(name, fetch)


def sources(package: str, directory: Path) -> Path:
    """The sources of a package of Debian's, as their authors released them, unpacked into an empty directory."""
    with TemporaryDirectory(prefix="kpybroker-") as state:
        apt = own_apt(Path(state), "amd64", types="deb-src")
        ran(*apt, "update")
        ran(*apt, "source", "--download-only", package, cwd=Path(state))
        (archive,) = (path for path in Path(state).glob("*.orig.tar.*") if path.suffix != ".asc")
        ran("tar", "--extract", "--file", archive, "--strip-components=1", cwd=directory)
    return directory


def own_apt(directory: Path, architecture: str, *, types: str = "deb", suite: str = "") -> tuple[str, ...]:
    """An apt-get that asks Debian's servers of this machine, for another architecture, and leaves this system alone.

    Raises:
        CannotBeHad: this machine does not get packages from Debian.
    """
    for name in ("lists/partial", "archives/partial", "state", "sources"):
        (directory / name).mkdir(parents=True)
    (directory / "status").touch()
    asked = [
        stanza
        for path in sorted(Path("/etc/apt/sources.list.d").glob("debian*.sources"))
        for stanza in re.split(r"\n\s*\n", path.read_text())
        if not (suite and "security" in stanza)
    ]
    if not asked:
        raise CannotBeHad("packages are fetched from Debian, and /etc/apt/sources.list.d has no debian.sources")
    text = re.sub(r"(?m)^Types:.*$", f"Types: {types}", "\n\n".join(asked))
    if suite:
        text = re.sub(r"(?m)^Suites:.*$", f"Suites: {suite}", text)
    (directory / "sources" / "debian.sources").write_text(text)
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::http::Timeout": "60",
        "Acquire::Retries": "2",
        "Dir::Cache": directory,
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": directory / "sources",
        "Dir::State": directory / "state",
        "Dir::State::lists": directory / "lists",
        "Dir::State::status": directory / "status",
    }
    return ("apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}")))
