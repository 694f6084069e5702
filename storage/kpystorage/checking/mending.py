"""Mending a partition's files: a file that is replaced is set aside beside the new one, never deleted.

Batches that are whole get the right bytes outside their checksum. Other bytes are taken out, which leaves a gap in the
offsets that readers skip. Indexes, snapshots and epochs are rebuilt from the batches.

Invariant: a file is set aside before another one takes its name; every loss is reported.
"""

from collections.abc import Iterator

from kpystorage import names, partition_metadata, producer_snapshot
from kpystorage.checking.findings import DAMAGE
from kpystorage.checking.partition import Edit, PartitionCheck, PartitionFacts, PartitionReport
from kpystorage.checking.set_aside_names import set_aside_name
from kpystorage.checkpoint import render_epochs, write_atomically
from kpystorage.disk import Disk
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log_config import LogConfig
from kpystorage.segment import Segment
from kpystorage.transaction_index import TransactionIndex

COPY_BYTES = 1 << 20
UNFINISHED = ".mending"


class Setter:
    """Sets aside the files of one run."""

    def __init__(self, disk: Disk, stamp: str) -> None:
        self.disk = disk
        self._stamp = stamp

    def set_aside(self, path: str) -> str:
        """Rename a file within its directory. Return the new path, empty if there is no such file. OSError."""
        if self.disk.status(path) is None:
            return ""
        number = 0
        while self.disk.status(target := set_aside_name(path, self._stamp, number)) is not None:
            number += 1
        self.disk.rename(path, target)
        return target


class PartitionMending:
    """The mending of one partition. ``metadata``: it is the metadata log, from which nothing is ever taken out."""

    def __init__(
        self, disk: Disk, directory: str, around: PartitionFacts, setter: Setter, *, metadata: bool = False
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.around = around
        self.lines: list[str] = []
        self._setter = setter
        self._metadata = metadata

    def run(self) -> PartitionReport:
        """Mend. Return a description of the partition afterwards. OSError where a file cannot be read or written."""
        check = PartitionCheck(self.disk, self.directory, self.around, mending=True)
        check.run()
        changed = set(self._segments(check))
        if changed:
            self._clear_orphans()
        after = PartitionCheck(self.disk, self.directory, self.around, mending=True)
        after.run()
        rebuilt = changed | {base for base, _ in check.damaged_indexes | after.damaged_indexes}
        for base in sorted(rebuilt):
            self._indexes(base, after)
        if not changed:
            self._clear_orphans()
        for offset in sorted(check.damaged_snapshots | after.damaged_snapshots):
            self._snapshot(offset, after)
        if after.epochs.wrong or after.epochs.strays:
            self._epochs(after)
        self._partition_metadata(after)
        self.disk.synchronize_directory(self.directory)
        return PartitionCheck(self.disk, self.directory, self.around).run()

    def _say(self, text: str) -> None:
        self.lines.append(f"{self.directory}/{text}")

    def _replace(self, name: str) -> str:
        """Set a file aside. Return the words that report it."""
        aside = self._setter.set_aside(f"{self.directory}/{name}")
        return f"; the old one is {aside.rpartition('/')[2]}" if aside else ""

    def _segments(self, check: PartitionCheck) -> Iterator[int]:
        only_one_epoch = check.epochs.strays == 1 and not check.epochs.wrong
        for base in check.bases():
            edits = {edit.position: edit for edit in check.edits.get(base, ())}
            if only_one_epoch:
                edits |= {edit.position: edit for edit in check.epoch_edits.get(base, ())}
            lost = [edit for edit in edits.values() if not edit.data]
            if not edits:
                continue
            if lost and self._metadata:
                self._say(f"{names.segment_file(base, names.LOG)}: left as it is; restore it from a copy")
                continue
            self._rewrite(base, sorted(edits.values()))
            yield base

    def _rewrite(self, base: int, edits: list[Edit]) -> None:
        name = names.segment_file(base, names.LOG)
        source, target = (
            self.disk.file(f"{self.directory}/{name}"),
            self.disk.create(f"{self.directory}/{name}{UNFINISHED}"),
        )
        read = written = 0
        for edit in [*edits, Edit(source.size(), source.size(), b"", None)]:
            while read < edit.position:
                data = source.pread(min(COPY_BYTES, edit.position - read), read)
                target.pwrite(data, written)
                read, written = read + len(data), written + len(data)
            if edit.data:
                target.pwrite(edit.data, written)
            read, written = edit.end, written + len(edit.data)
        target.fsync()
        target.release()
        source.release()
        aside = self._replace(name)
        self.disk.rename(f"{self.directory}/{name}{UNFINISHED}", f"{self.directory}/{name}")
        whole = sum(1 for edit in edits if edit.data)
        if whole:
            self._say(f"{name}: {whole} of its batches put right{aside}")
        for edit in edits:
            if not edit.data:
                self._say(f"{name}: taken out, and lost: {_lost(edit)}{aside}")

    def _clear_orphans(self) -> None:
        listed = self.disk.list_directory(self.directory)
        parsed = {name: found for name in listed if (found := names.parse_segment_file(name)) is not None}
        logs = {base for base, suffix in parsed.values() if suffix == names.LOG}
        for name, (base, suffix) in sorted(parsed.items()):
            if suffix in names.INDEXES and base not in logs:
                self._say(f"{name}: has no segment{self._replace(name)}")

    def _indexes(self, base: int, check: PartitionCheck) -> None:
        stem = names.segment_file(base, "")
        aside = [self._replace(stem + suffix) for suffix in names.INDEXES]
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            self.disk.create(f"{self.directory}/{stem}{suffix}").release()
        segment = Segment(self.disk, self.directory, base, created_ms=0, config=LogConfig())
        segment.rebuild_indexes()
        segment.release()
        index = TransactionIndex(self.disk, f"{self.directory}/{stem}{names.TRANSACTION_INDEX}", exists=False)
        for aborted in check.aborted.get(base, ()):
            index.append(aborted)
        if index.file is not None:
            index.file.release()
        self._say(f"{stem}: its indexes are rebuilt{next((each for each in aside if each), '')}")
        if aside[2] and not check.complete:
            self._say(
                f"{stem}: transactions aborted in it that began before the log's first batch are not known any more"
            )

    def _snapshot(self, offset: int, check: PartitionCheck) -> None:
        name = names.segment_file(offset, names.PRODUCER_SNAPSHOT)
        aside = self._replace(name)
        entries = check.snapshots.get(offset)
        if entries is None:
            self._say(f"{name}: set aside; the producers before offset {offset} are read from what is left{aside}")
            return
        self.disk.write(f"{self.directory}/{name}", producer_snapshot.render(entries), synchronize=True)
        self._say(f"{name}: rebuilt{aside}")

    def _epochs(self, check: PartitionCheck) -> None:
        elsewhere = check.epochs.elsewhere
        if elsewhere is None:
            self._say(
                f"{names.LEADER_EPOCHS}: left as it is; a store has the records from offset {check.epochs.log_start} "
                f"up to {check.epochs.first_base}, and only another replica can tell their epochs"
            )
            return
        aside = self._replace(names.LEADER_EPOCHS)
        epochs = LeaderEpochs(elsewhere)
        for epoch, start in check.epochs.seen.entries():
            epochs.assign(epoch, start)
        epochs.truncate_from_start(check.epochs.log_start)
        data = render_epochs(epochs.entries())
        write_atomically(self.disk, f"{self.directory}/{names.LEADER_EPOCHS}", data)
        self._say(f"{names.LEADER_EPOCHS}: rewritten from the batches{aside}")

    def _partition_metadata(self, check: PartitionCheck) -> None:
        path = f"{self.directory}/{names.PARTITION_METADATA}"
        topic_id = self.around.topic_id
        if topic_id is None or not any(each.path == path and each.level == DAMAGE for each in check.findings):
            return
        aside = self._replace(names.PARTITION_METADATA)
        write_atomically(self.disk, path, partition_metadata.render(topic_id))
        self._say(f"{names.PARTITION_METADATA}: rewritten{aside}")


def _lost(edit: Edit) -> str:
    first, following = edit.offsets or (-1, -1)
    count = edit.end - edit.position
    if following < 0:
        return f"{count} bytes from offset {first} on, up to the next batch"
    return f"offsets {first} to {following - 1}"
