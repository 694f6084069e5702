"""Errors of the operating system in words: what happened to which file, and how to mend it. Pure.

Not here: which directory goes offline for them. The words are for the administrator of the node; they hold no error
numbers.
"""

import errno
from typing import Final

_AGAIN: Final = "then start this node again"
_NOT_ALLOWED: Final = "let the user of this process read and write it, or name another directory"
_REMEDIES: Final = {
    errno.ENOSPC: f"the disk is full: make room on it, {_AGAIN}",
    errno.EDQUOT: f"the quota of this user is used up: make room, {_AGAIN}",
    errno.EFBIG: f"raise the size of file that this process may write (ulimit -f), {_AGAIN}",
    errno.EROFS: "let it be mounted for writing, or name another directory",
    errno.EACCES: _NOT_ALLOWED,
    errno.EPERM: _NOT_ALLOWED,
    errno.ENOTDIR: "a file is where a directory should be: move it away, or name another directory",
    errno.ENOENT: f"somebody took it away while it was in use: see whether its disk is mounted, {_AGAIN}",
    errno.EIO: "the disk does not work: the system's log says more, and `kpybroker check` what is damaged",
}


def what_happened(error: OSError) -> str:
    """The system's words, and the file where it is known."""
    reported = error.strerror or str(error)
    return reported if error.filename is None else f"{reported} ({error.filename})"


def in_words(error: OSError) -> str:
    """The words for what happened and how to mend it, without a full stop."""
    remedy = _REMEDIES.get(error.errno or 0)
    return what_happened(error) if remedy is None else f"{what_happened(error)}; {remedy}"
