"""Whether the leader epochs of batches and the ``leader-epoch-checkpoint`` beside them agree.

Invariant: nothing is kept per batch.
"""

from itertools import pairwise

from kpystorage import names
from kpystorage.checking.findings import DAMAGE, NOTE, Finding, Report
from kpystorage.checkpoint import parse_epochs
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpystorage.leader_epochs import LeaderEpochs

FROM_EPOCHS = -2
"""The log start is not known: the first known epoch stands in its place."""
REWRITTEN = "set aside and rewritten from the batches"


class EpochCheck:
    """Takes the batches of a whole log in their order, then the log's end."""

    def __init__(
        self, disk: Disk, directory: str, log_start: int, first_base: int, report: Report, *, clean: bool
    ) -> None:
        self.path = f"{directory}/{names.LEADER_EPOCHS}"
        self.wrong = False
        self.strays = 0
        """The number of batches that contradict the checkpoint."""
        self.expected = -1
        """The epoch that the last of them should have."""
        self.seen = LeaderEpochs()
        """The epochs that the batches have."""
        self._report = report
        self._clean = clean
        self._known = self._read(disk)
        self.first_base = first_base
        # A start below the first segment is that of a log whose beginning a store has.
        self.log_start = log_start if log_start >= 0 else first_base
        if log_start == FROM_EPOCHS and self.start_offset is not None:
            self.log_start = self.start_offset
        self._latest = -1
        self._missing = False

    def _read(self, disk: Disk) -> LeaderEpochs | None:
        try:
            entries = parse_epochs(disk.read(self.path), self.path)
        except FileNotFoundError:
            return None
        except CorruptFile as error:
            self._say(str(error).removeprefix(f"{self.path}: "))
            return None
        for (epoch, start), (following, its_start) in pairwise(entries):
            if following <= epoch or its_start <= start:
                self._say(f"epoch {following} from {its_start} behind epoch {epoch} from {start}")
                return None
        if any(epoch < 0 or start < 0 for epoch, start in entries):
            self._say("a negative number")
            return None
        return LeaderEpochs(entries)

    def _say(self, text: str) -> None:
        if not self.wrong:
            self._report(Finding(DAMAGE, self.path, text, REWRITTEN))
        self.wrong = True

    @property
    def start_offset(self) -> int | None:
        """The offset where the first known epoch begins. Once the log start has moved, that is the log start."""
        first = self._known.earliest if self._known is not None else None
        return first[1] if first is not None else None

    @property
    def elsewhere(self) -> list[tuple[int, int]] | None:
        """The epochs of the records that only a store has, as the checkpoint knows them; None if it knows none."""
        if self.log_start >= self.first_base:
            return []
        entries = self._known.entries() if self._known is not None else []
        return [(epoch, start) for epoch, start in entries if start < self.first_base] or None

    def batch(self, base_offset: int, last_offset: int, epoch: int) -> str:
        """Take the next batch. Return what is wrong with its epoch, or nothing if it is right."""
        before, self._latest = self._latest, max(self._latest, epoch)
        if epoch >= 0 and epoch > before:
            self.seen.assign(epoch, base_offset)
        if self._known is None:
            return f"its leader epoch {epoch} is below {before}, which is before it" if epoch < before else ""
        if last_offset < self.log_start:
            highest = self._known.epoch_for(self.log_start)  # where no reader gets any more, so it may be any before
            return f"its leader epoch {epoch} is above {highest}, which follows" if 0 <= highest < epoch else ""
        expected = self._known.epoch_for(max(base_offset, self.log_start))
        if epoch == expected:
            return ""
        if not self._clean and epoch > self._known.latest:
            self._missing = True
            return ""
        self.strays += 1
        self.expected = expected
        if self.strays > 1:
            return ""
        return f"its leader epoch is {epoch}, where {names.LEADER_EPOCHS} says {expected}"

    def end(self, log_end: int) -> None:
        """Take the end: the log has no more batches."""
        if self._missing:
            self._report(
                Finding(NOTE, self.path, "lacks the latest epoch, which the next start reads from the batches")
            )
        if self._known is None:
            return
        if self.strays > 1:
            self._say(f"{self.strays} batches have another epoch than it says")
        entries = self._known.entries()
        for epoch, start in entries:
            if start > log_end:
                self._say(f"epoch {epoch} from {start}, behind the log's end {log_end}")
        if entries and entries[0][1] < self.log_start <= log_end and self._clean:
            self._say(f"its first epoch begins at {entries[0][1]}, the log at {self.log_start}")
