"""The errors that storage raises, each with Kafka's error code, so that a caller can answer without a table of its own.

Not here: bytes that are not what they claim to be (:class:`kpywire.errors.Malformed`).
"""


class StorageError(Exception):
    """An action that a log refuses or cannot do. ``error_code`` is Kafka's number for it."""

    error_code = -1


class OffsetOutOfRange(StorageError):
    """The offset lies below the log start or above the log end."""

    error_code = 1


class CorruptRecord(StorageError):
    """The records of a stored batch cannot be read (CORRUPT_MESSAGE)."""

    error_code = 2


class NotMade(StorageError):
    """The files of the log are not made yet: the next attempt may succeed (NOT_LEADER_OR_FOLLOWER)."""

    error_code = 6


class RecordBatchTooLarge(StorageError):
    """An append that is larger than a segment may be (Kafka's RECORD_LIST_TOO_LARGE)."""

    error_code = 18


class OutOfOrderSequence(StorageError):
    """A producer's batch does not follow the last one it wrote here (OUT_OF_ORDER_SEQUENCE_NUMBER)."""

    error_code = 45


class InvalidProducerEpoch(StorageError):
    """A producer writes with an epoch below the last one seen here."""

    error_code = 47


class InvalidTxnState(StorageError):
    """A producer with an open transaction writes outside of it."""

    error_code = 48


class TransactionCoordinatorFenced(StorageError):
    """A marker comes from a transaction coordinator that is no longer the current one."""

    error_code = 52


class DiskFailure(StorageError):
    """The log directory failed, now or before; it is offline until the broker starts again (KAFKA_STORAGE_ERROR)."""

    error_code = 56


class TooManyOpenFiles(DiskFailure):
    """The process has no file descriptor left: nothing is wrong with the disk, and the next attempt may succeed."""


class CorruptLog(DiskFailure):
    """Flushed data of this log is damaged. The log stays offline rather than lose it; its directory works on."""


class InvalidRecord(StorageError):
    """A stored record that the configuration of its topic does not allow any more (INVALID_RECORD)."""

    error_code = 87


class UnexpectedAppendOffset(StorageError):
    """Batches to append start before the log end; ``first_offset`` says where (a follower may start over there)."""

    def __init__(self, message: str, first_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset


class CorruptFile(StorageError):
    """A small file (checkpoint, snapshot, properties) does not have its format. The message names the file."""


class DirectoryLocked(StorageError):
    """Another process has this log directory in use."""


class CorruptObject(StorageError):
    """An object of a remote store, or a record's words about it, does not have its format. The message is one line; the
    reader of the object puts its key in front."""
