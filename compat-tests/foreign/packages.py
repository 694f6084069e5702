"""Obtaining what foreign suites consist of: from package registries, by their ordinary clients, checked by hash.

Everything lands below build/foreign and is kept there. What cannot be had here raises Unavailable, with the reason.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from oracle.maven import copied

BUILD: Final = Path(__file__).parents[2] / "build" / "foreign"
DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:2.8"
"""The version that takes an artifact without looking for the parents of its description."""
PATIENCE_S = 1200.0


class Unavailable(Exception):
    """A suite cannot run on this machine; the text says what is missing."""


def needed(program: str) -> str:
    """The path of a program; raises Unavailable where the machine has none."""
    path = shutil.which(program)
    if path is None:
        raise Unavailable(f"there is no {program} on this machine")
    return path


def call(command: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return what it wrote; raises Unavailable with its last lines if it fails."""
    words = [str(word) for word in command]
    result = subprocess.run(
        words,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=PATIENCE_S,
        check=False,
    )
    if result.returncode:
        last = " / ".join(result.stdout.strip().splitlines()[-3:])
        raise Unavailable(f"{Path(words[0]).name} {words[1] if len(words) > 1 else ''} failed: {last[:500]}")
    return result.stdout


def python_source(requirement: str, archive: str, sha256: str) -> Path:
    """The unpacked source distribution of a Python package, such as ``kafka-python==3.0.12``."""
    name = requirement.partition("==")[0]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name, requirement)
    return _only_folder(_unpacked(archive, sha256, [*pip, "--dest", "."]))


def npm_package(package: str, archive: str, sha256: str) -> Path:
    """The unpacked tarball of an npm package, such as ``kafkajs@2.2.4``; none of its scripts is run."""
    return _only_folder(_unpacked(archive, sha256, [needed("npm"), "pack", "--silent", package]))


def maven_archive(artifact: str, archive: str, sha256: str) -> Path:
    """The unpacked archive that is a Maven artifact, such as ``group:name:1.0:tar.gz:all``."""
    copy = (needed("mvn"), "-q", "-B", f"{DEPENDENCY_PLUGIN}:copy", f"-Dartifact={artifact}", "-DoutputDirectory=.")
    return _unpacked(archive, sha256, copy)


def maven_jars(pom: Path) -> Path:
    """The directory of the jars that a pom names, with all that they need."""
    needed("java")
    needed("mvn")
    try:
        return copied(pom, BUILD / "jars" / pom.stem)
    except RuntimeError as problem:
        raise Unavailable(" / ".join(str(problem).splitlines()[:3])[:500]) from None


def python_environment(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of a virtual environment with these packages, made once for this list of them."""
    directory = BUILD / "environments" / name
    wanted = "\n".join(requirements)
    stamp = directory / "requirements.txt"
    python = directory / "bin" / "python"
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(directory, ignore_errors=True)
        directory.parent.mkdir(parents=True, exist_ok=True)
        call([sys.executable, "-m", "venv", "--without-pip", directory], cwd=directory.parent)
        call([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *requirements], cwd=directory)
        stamp.write_text(wanted)
    return python


def _unpacked(archive: str, sha256: str, download: Sequence[str]) -> Path:
    """The content of an archive that ``download`` brings into its working directory, if it has the right hash."""
    directory = BUILD / "sources" / archive
    done = directory / "unpacked"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        call(download, cwd=directory)
        content = (directory / archive).read_bytes()
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise Unavailable(f"{archive} has the SHA-256 {found} and not the pinned one")
        with tarfile.open(directory / archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it first
            tar.extractall(directory / "content")
        done.touch()
    return directory / "content"


def _only_folder(content: Path) -> Path:
    (folder,) = content.iterdir()
    return folder
