"""Completing and flushing all logs of a directory at a clean stop, many of them in few syncs.

One sync of the whole file system writes everything to the disk at once. It confirms nothing: before Linux 5.8 it
reported no failed write, and since then none that was already reported to another descriptor. So each descriptor that
was written through is asked afterwards. That costs a microsecond, where an ``fsync`` makes the drive flush its cache
again.

Invariant: everything that :func:`complete` leaves was confirmed by the descriptor that it was written through, or read
back.
"""

from kpystorage import names
from kpystorage.checkpoint import TEMPORARY, render_epochs
from kpystorage.disk import Disk
from kpystorage.flush import give_up_flush
from kpystorage.log import Log

FEW_LOGS = 8
LOGS_AT_ONCE = 500
"""The number of logs completed at a time. Their files stay open between the two steps, as far as possible."""


def complete(disk: Disk, path: str, logs: list[Log]) -> None:
    """Complete and flush open logs of the directory at ``path``, once no thread works on them. OSError, DiskFailure."""
    for begin in range(0, len(logs), LOGS_AT_ONCE):
        some = logs[begin : begin + LOGS_AT_ONCE]
        for log in some:
            give_up_flush(log)
        if len(some) > FEW_LOGS and disk.synchronize_all(path):
            _write_epochs(disk, path, [log for log in some if log.has_unwritten_epochs])
            for log in some:
                log.close()
            disk.synchronize_all(path)
            for log in some:
                flush = log.begin_flush()
                if flush is not None:
                    flush.confirm()
                    log.finish_flush(flush)
        else:
            for log in some:
                log.close()
                log.flush()


def _write_epochs(disk: Disk, path: str, logs: list[Log]) -> None:
    """Write the leader epochs, before the snapshots of producers that belong to them (see
    :meth:`Log.take_snapshot`)."""
    paths = [f"{log.path}/{names.LEADER_EPOCHS}" for log in logs]
    files = [disk.create(path + TEMPORARY) for path in paths]
    for log, file in zip(logs, files, strict=True):
        content = render_epochs(log.epochs.entries())
        log.folder.render_epochs(content)
        file.pwrite(content, 0)
    disk.synchronize_all(path)
    for log, file, target in zip(logs, files, paths, strict=True):
        file.descriptor().confirm()
        file.release()
        disk.rename(target + TEMPORARY, target)
        log.folder.epochs_were_written()
        log.epochs.dirty = False
