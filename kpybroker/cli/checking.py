"""The run of ``kpybroker check`` over log directories: the order of the checks, and the number of processes."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kpybroker.cli.check_metadata import MetadataCheck, is_metadata_directory
from kpybroker.machines.audit.work import Reached
from kpybroker.pipeline.audit.mapping import in_processes
from kpystorage import names
from kpystorage.checking.directory import DirectoryCheck, KnownMetadata, TopicPartition
from kpystorage.checking.findings import DAMAGE, NOTE, Finding
from kpystorage.checking.partition import PartitionCheck, PartitionFacts, PartitionReport
from kpystorage.directory import METADATA_TOPIC
from kpystorage.reading_disk import ReadingDisk


class CheckTask(NamedTuple):
    """The directory of one partition to be checked."""

    directory: str
    around: PartitionFacts
    size_bytes: int


class CheckedDirectories(NamedTuple):
    """The findings of a run."""

    findings: list[Finding]
    partitions: int
    size_bytes: int
    directories: list[DirectoryCheck]
    reports: dict[str, PartitionReport]
    """The reports by directory."""


def check_partition(task: CheckTask) -> PartitionReport:
    """Check one partition. A file that cannot be read is a finding."""
    check = PartitionCheck(ReadingDisk(), task.directory, task.around)
    try:
        return check.run()
    except OSError as error:
        check.findings.append(Finding(DAMAGE, error.filename or task.directory, f"cannot be read: {error.strerror}"))
        return PartitionReport(task.directory, check.findings, 0, 0, -1, check.size_bytes, 0)


def check_directories(paths: Sequence[str], reached: Reached, total: Callable[[int], object]) -> CheckedDirectories:
    """Check the log directories of one node. ``total`` is called with the number of bytes to read. May raise
    OSError."""
    disk = ReadingDisk()
    findings: list[Finding] = []
    metadata = [MetadataCheck(disk, path, findings.append) for path in paths if is_metadata_directory(path)]
    known = metadata[0].run() if metadata else KnownMetadata()
    directories = [DirectoryCheck(disk, path, known) for path in paths]
    tasks: list[CheckTask] = []
    for each in directories:
        each.look()
        tasks += [CheckTask(path, each.facts(spot), _size(path)) for spot, path in each.partitions.items()]
        tasks += [CheckTask(path, PartitionFacts(clean=False), _size(path)) for path, _ in each.others]
    total(sum(task.size_bytes for task in tasks))
    reports = {report.directory: report for report in _run(tasks, reached)}
    for each in directories:
        each.compare({spot: reports[path] for spot, path in each.partitions.items()})
        findings += each.findings
    clean = {each.path: each.clean for each in directories}
    for check in metadata:
        log = reports.get(check.path)
        if log is not None:
            check.compare_epoch(log.last_epoch, clean=clean[check.directory])
    findings += _across(directories)
    for _, report in sorted(reports.items()):
        findings += report.findings
    size_bytes = sum(report.size_bytes for report in reports.values())
    return CheckedDirectories(findings, len(reports), size_bytes, directories, reports)


def _across(directories: Sequence[DirectoryCheck]) -> Iterator[Finding]:
    """The contradictions between the directories of one node."""
    first = directories[0]
    homes: dict[TopicPartition, str] = {}
    for each in directories:
        if each.cluster_id != first.cluster_id and None not in (each.cluster_id, first.cluster_id):
            text = f"its cluster.id is {each.cluster_id}, that of {first.path} {first.cluster_id}"
            yield Finding(DAMAGE, f"{each.path}/{names.META_PROPERTIES}", text)
        for spot, path in each.partitions.items():
            other = homes.setdefault(spot, path)
            if other != path:
                yield Finding(DAMAGE, path, f"the partition is also in {other}")


def _size(directory: str) -> int:
    return sum(each.stat().st_size for each in Path(directory).iterdir() if each.suffix == names.LOG)


def _run(tasks: Sequence[CheckTask], reached: Reached) -> Iterator[PartitionReport]:
    return in_processes()(check_partition, tasks, reached)


def is_log_directory(path: Path) -> bool:
    """Whether this looks like a directory with many partitions."""
    return (
        (path / names.META_PROPERTIES).exists()
        or any((path / name).exists() for name in (names.RECOVERY_POINTS, names.HIGH_WATERMARKS, names.CLEAN_SHUTDOWN))
        or any(is_partition_directory(each) for each in path.iterdir() if each.is_dir())
    )


def is_partition_directory(path: Path) -> bool:
    """Whether this is the directory of one partition."""
    named = names.parse_partition_directory(path.name) or names.parse_marked_directory(path.name)
    return named is not None and any(each.suffix == names.LOG for each in path.iterdir())


def facts_of(path: Path) -> PartitionFacts:
    """The facts about a single partition from the log directory around it, if there is one."""
    spot = names.parse_partition_directory(path.name)
    if spot is None or not is_log_directory(path.parent):
        return PartitionFacts(clean=False)
    around = DirectoryCheck(ReadingDisk(), str(path.parent), KnownMetadata())
    around.look()
    return around.facts(spot)


def lock_note(path: str) -> Finding | None:
    """A note that a broker is running with this directory, if one is."""
    import fcntl

    lock = Path(path) / names.LOCK
    try:
        with open(lock, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return Finding(NOTE, str(lock), "a broker runs with this directory: what it writes now may look unfinished")
    except OSError:
        return None
    return None


__all__ = ["METADATA_TOPIC", "CheckedDirectories", "check_directories", "check_partition", "lock_note"]
