"""The words for a failed call to the store."""

import logging

from kpybroker.hosts.remote_log.remote_storage import CopyStopped, StoreFailed
from kpystorage.errors import CorruptObject, StorageError
from kpywire.errors import Malformed

log = logging.getLogger("kpybroker.tiered")


def words_of(error: BaseException) -> str:
    """One line; a defect is logged with its traceback."""
    if isinstance(error, StoreFailed | CopyStopped | StorageError | CorruptObject | Malformed | ValueError | OSError):
        return str(error) or type(error).__name__
    log.error("A call to the store failed because of a defect", exc_info=error)
    return f"a defect: {type(error).__name__}"
