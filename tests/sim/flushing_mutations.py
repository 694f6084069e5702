"""Bugs of flushes that take long: other work goes on in the files and directories that their threads use.

What cannot show is not planted: a void flush that is forgotten, and a log that is deleted without waiting for its
flush. The lock of the log's directory makes both harmless.
"""

from .kind import FLUSHING
from .mutation import Mutation

FOLDER = "storage/kpystorage/log_folder.py"
FLUSH = "storage/kpystorage/flush.py"
LOG = "storage/kpystorage/log.py"


def _planted(name: str, path: str, old: str, new: str, nodes: int = 3) -> Mutation:
    return Mutation(name, path, old, new, nodes, world=FLUSHING)


FLUSHING_MUTATIONS = [
    _planted(
        "two write the leader epochs of a log at once",
        FOLDER,
        "        with self._lock:\n            content = self._rendered\n            if self._written",
        "        if self._lock:\n            content = self._rendered\n            if self._written",
    ),
    _planted(
        "a flush knows its directory by the name that it had when the flush began",
        FLUSH,
        "        flush.folder = log.folder\n",
        "        flush.folder = LogFolder(log.directory.disk, log.path)\n",
    ),
    _planted(
        "a flush that a truncation made void confirms what was written since",
        LOG,
        "        if self.is_open and not flush.is_void:\n",
        "        if self.is_open:\n",
    ),
]
