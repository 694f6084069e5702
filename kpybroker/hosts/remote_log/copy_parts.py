"""The parts of a copy: read from the log file, and written when the limits of the copy let them."""

from collections.abc import Iterable, Iterator

from kpybroker.hosts.remote_log.remote_storage import CopyLimits, CopyStopped, StoreFailed
from kpybroker.hosts.remote_log.upload_rate import UploadRate
from kpystorage.log_slice import LogSlice
from kpywire.varint import Buffer


def log_part(log: LogSlice, start: int, length: int) -> bytes:
    """Bytes of the log file from ``start`` on. StoreFailed if it does not have them."""
    try:
        found = log.descriptor.pread(length, log.position + start)
    except OSError as error:
        raise StoreFailed(f"the log file cannot be read: {error.strerror or error}") from None
    if len(found) != length:
        raise StoreFailed(f"the log file has {start + len(found)} bytes, not {len(log)}")
    return found


def paced(parts: Iterable[Buffer], limits: CopyLimits, rate: UploadRate | None = None) -> Iterator[Buffer]:
    """The parts, each when it may be written. CopyStopped before the next one if the copy is stopped."""
    for part in parts:
        _stop_if_asked(limits)
        limits.wait_for(len(part))
        if rate is not None:
            rate.wait_for(len(part), limits.is_stopped)
        _stop_if_asked(limits)
        yield part


def _stop_if_asked(limits: CopyLimits) -> None:
    if limits.is_stopped():
        raise CopyStopped("the copy was stopped")
