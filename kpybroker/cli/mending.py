"""``kpybroker check --repair``: mends partitions first, then the files of the log directories about them."""

import time

from kpybroker.cli.checking import CheckedDirectories
from kpystorage import names
from kpystorage.checking.directory import CHECKPOINTS, DirectoryCheck, TopicPartition
from kpystorage.checking.findings import DAMAGE
from kpystorage.checking.mending import PartitionMending, Setter
from kpystorage.checking.partition import PartitionFacts, PartitionReport
from kpystorage.checkpoint import render_offsets, write_atomically
from kpystorage.directory import METADATA_TOPIC
from kpystorage.real_disk import RealDisk


def mend(found: CheckedDirectories) -> list[str]:
    """Mend the findings. Return what was done, line by line. OSError where a file cannot be written."""
    disk = RealDisk()
    setter = Setter(disk, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    lines: list[str] = []
    if not found.directories:
        for path in found.reports:
            mending = PartitionMending(disk, path, PartitionFacts(clean=False), setter)
            mending.run()
            lines += mending.lines
    for directory in found.directories:
        lines += _mend_directory(disk, setter, directory, found)
    return lines


def _mend_directory(disk: RealDisk, setter: Setter, directory: DirectoryCheck, found: CheckedDirectories) -> list[str]:
    lines: list[str] = []
    reports: dict[TopicPartition, PartitionReport] = {}
    touched: set[TopicPartition] = set()
    for spot, path in directory.partitions.items():
        reports[spot] = found.reports[path]
        if not any(each.level == DAMAGE for each in reports[spot].findings):
            continue
        around = directory.facts(spot)
        mending = PartitionMending(disk, path, around, setter, metadata=spot[0] == METADATA_TOPIC)
        reports[spot] = mending.run()
        if mending.lines:
            touched.add(spot)
        lines += mending.lines
    wrong = {each.path.rpartition("/")[2] for each in directory.findings if each.level == DAMAGE}
    wrong |= {
        names.RECOVERY_POINTS
        for report in reports.values()
        for each in report.findings
        if each.path.endswith(f"../{names.RECOVERY_POINTS}")
    }
    for name in CHECKPOINTS:
        if name in wrong or (name == names.RECOVERY_POINTS and touched):
            lines.append(_checkpoint(disk, setter, directory, name, reports, touched))
    if names.CLEAN_SHUTDOWN in wrong:
        aside = setter.set_aside(f"{directory.path}/{names.CLEAN_SHUTDOWN}")
        lines.append(f"{aside}: set aside; the next start checks the logs")
    return lines


def _checkpoint(
    disk: RealDisk,
    setter: Setter,
    directory: DirectoryCheck,
    name: str,
    reports: dict[TopicPartition, PartitionReport],
    touched: set[TopicPartition],
) -> str:
    """Rewrite a checkpoint. Return what was done."""
    path = f"{directory.path}/{name}"
    before = directory.checkpoints[name]
    after: dict[TopicPartition, int] = {}
    for spot, report in reports.items():
        if spot[0] == METADATA_TOPIC:
            continue
        if name == names.RECOVERY_POINTS:
            flushed = directory.clean or spot in touched
            after[spot] = report.log_end if flushed else min(before.get(spot, 0), report.log_end)
        elif name == names.LOG_STARTS:
            start = before.get(spot, report.log_start)
            if start != report.first_base and 0 <= start <= report.log_end:
                after[spot] = start
        elif 0 <= before.get(spot, -1) <= report.log_end:
            after[spot] = before[spot]
    aside = setter.set_aside(path)
    write_atomically(disk, path, render_offsets(after))
    return f"{path}: rewritten; the old one is {aside.rpartition('/')[2]}"
