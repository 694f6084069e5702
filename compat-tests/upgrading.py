"""Nodes of one cluster that run different versions of kpybroker, each from sources of its own.

The version before is not installed anywhere: its sources come out of the repository's history.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from clusters import KpyNode, Place

ROOT: Final = Path(__file__).parents[1]
PREVIOUS: Final = "53d201a5c05cd28deba4ab11111b9f3c991216a0"
"""The commit that is version 0.1.0."""
SOURCES: Final = ("kpybroker", "wire", "storage")


class NoSuchVersion(Exception):
    """The repository's history does not reach back so far, or there is none; the text says which."""


def sources_of(commit: str, directory: Path) -> Path:
    """The sources of a commit below a directory; raises NoSuchVersion."""
    archived = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit, *SOURCES], capture_output=True, check=False
    )
    if archived.returncode != 0:
        said = archived.stderr.decode(errors="replace").strip().splitlines()
        raise NoSuchVersion(f"needs the sources of {commit[:7]}: {said[-1] if said else 'git archive failed'}")
    directory.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archived.stdout, check=True)
    return directory


class VersionedNode(KpyNode):
    """A node that runs the program of ``sources``; None is the checkout's, as installed."""

    sources: Path | None = None

    @property
    def words(self) -> tuple[str, ...]:
        if self.sources is None:
            return super().words
        path = ":".join(str(self.sources / each) for each in ("", *SOURCES[1:]))
        return ("env", f"--chdir={self.sources}", f"PYTHONPATH={path}", sys.executable, "-m", "kpybroker")

    @property
    def version(self) -> str:
        """The version that the program prints."""
        said = subprocess.run([*self.words, "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split("version ")[1].split(",")[0]


def nodes_of(sources: Path | None, *formatting: str) -> Callable[[Place, Mapping[str, str], Path], VersionedNode]:
    """For ``Cluster``: nodes that run these sources, formatted with these options."""

    def node_of(place: Place, properties: Mapping[str, str], directory: Path) -> VersionedNode:
        node = VersionedNode(place, properties, directory)
        node.sources, node.formatting = sources, formatting
        return node

    return node_of
