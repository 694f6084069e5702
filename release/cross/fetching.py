"""The tools for wheels of other platforms, and sources: fetched into build/cross, where they stay, not installed.

Debian's packages come by apt-get, which checks their signatures, with lists and a cache of its own. Zig, a C compiler
for every platform, comes from the package index by its checksum.
"""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "cross"
ZIG = "ziglang==0.17.1 --hash=sha256:ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54"
"""For Linux on x86-64."""


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
    if not complete.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        make(directory)
        complete.touch()
    return directory


def zig() -> Path:
    """The compiler: ``zig cc`` takes the options of clang, and ``-target`` a platform."""

    def fetch(directory: Path) -> None:
        asked = directory / "requirements.txt"
        asked.write_text(f"{ZIG}\n")
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
        ran(*pip, "--only-binary=:all:", "--target", directory, "-r", asked)

    return kept("zig", fetch) / "ziglang" / "zig"


def debian(name: str, architecture: str, *, packages: tuple[str, ...] = (), alone: tuple[str, ...] = ()) -> Path:
    """A directory with packages of an architecture and all that they need, and with packages ``alone``, unpacked."""

    def fetch(directory: Path) -> None:
        with TemporaryDirectory(prefix="kpybroker-") as state:
            apt = own_apt(Path(state), architecture)
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
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    with TemporaryDirectory(prefix="kpybroker-") as state:
        lists = Path(state, "sources.d")
        lists.mkdir()
        for path in Path("/etc/apt/sources.list.d").glob("debian*.sources"):
            (lists / path.name).write_text(re.sub(r"(?m)^Types:.*$", "Types: deb-src", path.read_text()))
        only = (f"Dir::Etc::sourceparts={lists}", "Dir::Etc::sourcelist=/dev/null")
        apt = (*own_apt(Path(state), "amd64"), *(word for option in only for word in ("-o", option)))
        ran(*apt, "update")
        ran(*apt, "source", "--download-only", f"{package}/{release}", cwd=Path(state))
        (archive,) = (path for path in Path(state).glob("*.orig.tar.*") if path.suffix != ".asc")
        ran("tar", "--extract", "--file", archive, "--strip-components=1", cwd=directory)
    return directory


def own_apt(directory: Path, architecture: str) -> tuple[str, ...]:
    """An apt-get that asks the sources of this machine, for another architecture, and leaves this system alone."""
    for name in ("lists/partial", "archives/partial", "state"):
        (directory / name).mkdir(parents=True)
    (directory / "status").touch()
    options = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Dir::Cache": directory,
        "Dir::State": directory / "state",
        "Dir::State::lists": directory / "lists",
        "Dir::State::status": directory / "status",
    }
    return ("apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}")))
