"""Whether the files of a log directory itself are whole, and agree with one another and with the cluster's metadata.

Not here: the partitions' own directories (:mod:`kpystorage.checking.partition`) and the meaning of the metadata log.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kpystorage import checkpoint, meta_properties, names, session
from kpystorage.checking.epochs import FROM_EPOCHS
from kpystorage.checking.findings import DAMAGE, NOTE, Finding
from kpystorage.checking.partition import NO_OFFSET, PartitionFacts, PartitionReport
from kpystorage.checking.set_aside_names import is_set_aside
from kpystorage.directory import METADATA_TOPIC
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpywire.uuid import to_string

TopicPartition = tuple[str, int]

CHECKPOINTS = (names.RECOVERY_POINTS, names.LOG_STARTS, names.HIGH_WATERMARKS, names.CLEANER_OFFSETS)
_OWN_FILES = (
    *CHECKPOINTS,
    names.META_PROPERTIES,
    names.CLEAN_SHUTDOWN,
    names.LOCK,
    session.SESSION,
    "bootstrap.checkpoint",
)
_REMEDIES = {
    names.RECOVERY_POINTS: "set aside and rewritten from the logs",
    names.LOG_STARTS: "set aside and rewritten from the leader epochs",
    names.HIGH_WATERMARKS: "set aside; the leaders find them again",
    names.CLEANER_OFFSETS: "set aside; compaction starts again from the beginning",
}


class KnownMetadata(NamedTuple):
    """The contents of the metadata log; None or empty where it could not be read."""

    topic_ids: Mapping[str, bytes] | None = None
    node_id: int | None = None
    """The id of the only node, if there is only one."""
    directory_ids: frozenset[bytes] = frozenset()
    """The ids of the node's log directories."""
    broker_epoch: int = -1
    compacted: frozenset[str] = frozenset()
    """The topics whose ``cleanup.policy`` names ``compact``."""


class DirectoryCheck:
    """The check of one log directory. ``findings`` gather as methods are called."""

    def __init__(self, disk: Disk, path: str, known: KnownMetadata) -> None:
        self.disk = disk
        self.path = path
        self.known = known
        self.findings: list[Finding] = []
        self.partitions: dict[TopicPartition, str] = {}
        """The directory's path by topic and partition."""
        self.others: list[tuple[str, str]] = []
        """(path, mark) of marked directories that are still worth checking: ``-future`` and ``-stray``."""
        self.checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self.cluster_id: str | None = None
        self._malformed: set[str] = set()
        self.clean = disk.status(self._file(names.CLEAN_SHUTDOWN)) is not None

    def _file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def damage(self, name: str, text: str, remedy: str = "") -> None:
        self.findings.append(Finding(DAMAGE, self._file(name), text, remedy))

    def note(self, name: str, text: str) -> None:
        self.findings.append(Finding(NOTE, self._file(name), text))

    def look(self) -> None:
        """Read the directory's own files, list its partitions. May raise OSError."""
        for name in sorted(self.disk.list_directory(self.path)):
            status = self.disk.status(self._file(name))
            if status is not None and status.is_directory:
                self._directory(name)
            elif is_set_aside(name):
                self.note(name, "set aside by an earlier repair")
            elif name.endswith(checkpoint.TEMPORARY):
                self.note(name, "left by a stop in between")
            elif name not in _OWN_FILES:
                self.note(name, "none of Kafka's files; nobody reads it")
        for name in CHECKPOINTS:
            try:
                self.checkpoints[name] = checkpoint.read_offsets(self.disk, self._file(name))
            except CorruptFile as error:
                self._malformed.add(name)
                self.checkpoints[name] = {}
                self.damage(name, str(error).removeprefix(f"{self._file(name)}: "), _REMEDIES[name])
        self._meta_properties()
        self._clean_shutdown()

    def _directory(self, name: str) -> None:
        marked = names.parse_marked_directory(name)
        parsed = names.parse_partition_directory(name)
        if marked is not None:
            mark = marked[2]
            findings = {
                names.DELETE_DIRECTORY: "a deleted partition, which the next start removes",
                names.STRAY_DIRECTORY: "a partition that had no place in the cluster; kept, and served by nobody",
                names.FUTURE_DIRECTORY: "a partition on its way into this directory",
            }
            self.note(name, findings[mark])
            if mark != names.DELETE_DIRECTORY:
                self.others.append((self._file(name), mark))
        elif parsed is None:
            self.note(name, "no partition's directory; Apache Kafka refuses to start with it")
        else:
            self.partitions[parsed] = self._file(name)
            topics = self.known.topic_ids
            if topics is not None and parsed[0] not in topics and parsed[0] != METADATA_TOPIC:
                self.note(name, "its topic is not in the cluster; a start sets it aside as a stray one")

    def _meta_properties(self) -> None:
        name = names.META_PROPERTIES
        try:
            found = meta_properties.read(self.disk, self.path)
        except CorruptFile as error:
            self.damage(name, str(error).removeprefix(f"{self._file(name)}: "))
            return
        if found is None:
            self.damage(name, "is missing: nobody can tell whose directory this is")
            return
        self.cluster_id = found.cluster_id
        lines = [line.strip(b"\r") for line in self.disk.read(self._file(name)).split(b"\n")]
        ours = meta_properties.render(found._replace(cluster_id=None)).split(b"\n")
        if not {*ours} - {b"#"} <= {*lines, b""}:
            self.damage(name, "is not as a broker writes it")
        if found.version == 0:
            self.damage(name, "of a broker in ZooKeeper mode, which kpybroker cannot start with")
            return
        if not _is_cluster_id(found.cluster_id):
            self.damage(name, f"its cluster.id {found.cluster_id!r} is no id")
        if found.directory_id is None:
            self.damage(name, "names no directory.id")
        elif self.known.directory_ids and found.directory_id not in self.known.directory_ids:
            self.damage(name, f"its directory.id {to_string(found.directory_id)} is none of the node's in the metadata")
        if self.known.node_id is not None and found.node_id != self.known.node_id:
            self.damage(name, f"its node.id is {found.node_id}, the metadata's only node is {self.known.node_id}")

    def _clean_shutdown(self) -> None:
        name = names.CLEAN_SHUTDOWN
        if not self.clean:
            self.note(name, "is not there: a broker runs, or was not stopped cleanly; the next start checks the logs")
            return
        data = self.disk.read(self._file(name))
        try:
            content = json.loads(data) if data else {"version": 0}
        except ValueError:
            content = None
        remedy = "set aside; the next start checks the logs"
        if (
            not isinstance(content, dict)
            or content.get("version") != 0
            or not set(content) <= {"version", "brokerEpoch"}
        ):
            self.damage(name, "is not what a broker writes at a clean stop", remedy)
            return
        epoch = content.get("brokerEpoch", -1)
        if self.known.broker_epoch >= 0 and epoch not in (-1, self.known.broker_epoch):
            self.damage(name, f"its broker epoch is {epoch}, the broker's was {self.known.broker_epoch}", remedy)

    # Partitions.

    def facts(self, spot: TopicPartition) -> PartitionFacts:
        """The facts about one partition that its check needs."""
        topics = self.known.topic_ids or {}
        unknown = FROM_EPOCHS if names.LOG_STARTS in self._malformed else NO_OFFSET
        return PartitionFacts(
            self.clean,
            self.checkpoints[names.RECOVERY_POINTS].get(spot, NO_OFFSET),
            self.checkpoints[names.LOG_STARTS].get(spot, unknown),
            self.checkpoints[names.CLEANER_OFFSETS].get(spot, 0),
            topics.get(spot[0]),
            spot[0] in self.known.compacted,
        )

    def compare(self, reports: Mapping[TopicPartition, PartitionReport]) -> None:
        """Compare the checkpoints with the partitions' logs, which these reports describe."""
        for name in CHECKPOINTS:
            found = self.checkpoints[name]
            unknown = [spot for spot in found if spot not in self.partitions]
            if unknown and self.clean:
                self.damage(name, f"names {_listed(unknown)}, which the directory does not have", _REMEDIES[name])
            elif unknown:
                self.note(name, f"names {_listed(unknown)}, which the directory does not have")
            self._missing(name, found)
            if name != names.RECOVERY_POINTS:
                self._bounds(name, found, reports)

    def _missing(self, name: str, found: Mapping[TopicPartition, int]) -> None:
        if name != names.RECOVERY_POINTS or not self.clean or name in self._malformed:
            return
        missing = [spot for spot in self.partitions if spot not in found and spot[0] != METADATA_TOPIC]
        if missing:
            self.damage(name, f"lacks {_listed(missing)}", _REMEDIES[name])

    def _bounds(
        self, name: str, found: Mapping[TopicPartition, int], reports: Mapping[TopicPartition, PartitionReport]
    ) -> None:
        for spot, offset in found.items():
            report = reports.get(spot)
            if report is not None and not 0 <= offset <= report.log_end:
                what = f"says {offset} of {spot[0]}-{spot[1]}, whose log ends at {report.log_end}"
                self.damage(name, what, _REMEDIES[name])


def _listed(spots: Sequence[TopicPartition]) -> str:
    shown = ", ".join(f"{topic}-{partition}" for topic, partition in spots[:3])
    return shown if len(spots) <= 3 else f"{shown} and {len(spots) - 3} more"


def _is_cluster_id(text: str | None) -> bool:
    return text is not None and text.isascii() and text.isprintable() and text != "" and " " not in text
