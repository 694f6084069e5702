"""The permissions of the files and directories of logs: the one place that decides them.

Records are in these files in clear, and so are passwords that were set as configs, and the keys of SCRAM users. So only
the user of the process reads them. An operator may let the group of the process read the records, for programs that
read files or watch their sizes; the metadata log stays closed.
"""

import os
import stat
from typing import Final, NamedTuple

SECRET_NAMES: Final = ("__cluster_metadata-0", "bootstrap.checkpoint")
"""The beginnings of the names, in a log directory, of what holds metadata."""
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Modes(NamedTuple):
    """The permissions of what a process makes, before its umask."""

    file: int
    directory: int

    def of_file(self, path: str) -> int:
        """The permissions of a new file."""
        return PRIVATE.file if path.rpartition("/")[2].startswith(SECRET_NAMES) else self.file

    def of_directory(self, path: str) -> int:
        """The permissions of a new directory."""
        return PRIVATE.directory if path.rpartition("/")[2].startswith(SECRET_NAMES) else self.directory

    def protect(self, path: str) -> tuple[int, int]:
        """Take the permissions of others from a log directory that exists, and let the group in if it may read. Return
        the permissions before and after; they are equal where nothing is to be done, or nothing can be.

        The files in it need no change: nobody reaches them. A directory that all users share, such as ``/tmp``, stays.
        """
        found = stat.S_IMODE(os.stat(path).st_mode)
        wanted = found & ~_OF_OTHERS | self.directory & _OF_OTHERS
        if wanted == found or found & stat.S_ISVTX:
            return found, found
        try:
            os.chmod(path, wanted)
        except OSError:  # it belongs to another user, as the root of a volume may
            return found, found
        return found, wanted


PRIVATE: Final = Modes(0o600, 0o700)
GROUP: Final = Modes(0o640, 0o750)
