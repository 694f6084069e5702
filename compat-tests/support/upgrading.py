"""Nodes of one cluster that run different versions of kpybroker, each from sources of its own.

Earlier versions are not installed anywhere: their sources come out of the repository's history.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from kpywire.messages.api_versions import ApiVersionsRequest
from support.clusters import KpyNode, Place
from support.raw_client import RawClient

ROOT: Final = Path(__file__).parents[2]
VERSIONS: Final[Mapping[str, str]] = {
    "0.1.0": "53d201a5c05cd28deba4ab11111b9f3c991216a0",
    "0.2.0-groups": "5f9cbbd9f71f316ff1358ffa1681a78c2b5fdb15",
    "0.2.0-kafka-4.3": "e56fcea63935d234e721aff2e887ec86b04ab5d3",
}
"""The commits of the last three versions. Until there are three releases, states between them count: the one that first
wrote groups of the newer protocols, and the last one with the levels of Kafka 4.3."""
FIRST: Final = "0.1.0"
OF_KAFKA_4_3: Final = "0.2.0-kafka-4.3"
SOURCES: Final = ("kpybroker", "wire", "storage")


class NoSuchVersion(Exception):
    """The repository's history does not reach back so far, or there is none; the text says which."""


def sources_of(version: str, directory: Path) -> Path:
    """The sources of a version below a directory; raises NoSuchVersion."""
    commit = VERSIONS[version]
    archived = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit, *SOURCES], capture_output=True, check=False
    )
    if archived.returncode != 0:
        reported = archived.stderr.decode(errors="replace").strip().splitlines()
        raise NoSuchVersion(
            f"needs the sources of {version}, {commit[:7]}: {reported[-1] if reported else 'git archive failed'}"
        )
    directory.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(directory)], input=archived.stdout, check=True)
    return directory


def program_of(sources: Path) -> tuple[str, ...]:
    """The words that begin a command line of the program with these sources."""
    path = ":".join(str(sources / each) for each in ("", *SOURCES[1:]))
    return ("env", f"--chdir={sources}", f"PYTHONPATH={path}", sys.executable, "-m", "kpybroker")


class VersionedNode(KpyNode):
    """A node that runs the program of ``sources``; None is the checkout's, as installed."""

    sources: Path | None = None
    start_timeout_s = 180.0

    @property
    def words(self) -> tuple[str, ...]:
        return super().words if self.sources is None else program_of(self.sources)

    @property
    def version(self) -> str:
        """The version that the program prints."""
        reported = subprocess.run([*self.words, "--version"], capture_output=True, text=True, check=True)
        return reported.stdout.split("version ")[1].split(",")[0]


def nodes_of(sources: Path | None, *formatting: str) -> Callable[[Place, Mapping[str, str], Path], VersionedNode]:
    """For ``Cluster``: nodes that run these sources, formatted with these options."""

    def node_of(place: Place, properties: Mapping[str, str], directory: Path) -> VersionedNode:
        node = VersionedNode(place, properties, directory)
        node.sources, node.formatting = sources, formatting
        return node

    return node_of


def finalized(port: int) -> dict[str, int]:
    """The levels of features that a node tells, those at 0 left out."""
    with RawClient(port) as client:
        answer = client.call(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
    return {each.name: each.max_version_level for each in answer.finalized_features}
