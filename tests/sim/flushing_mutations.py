"""Bugs of flushes that take long: other work goes on in the files and directories that their threads use."""

from .kind import FLUSHING
from .mutation import Mutation

FOLDER = "storage/kpystorage/log_folder.py"
FLUSH = "storage/kpystorage/flush.py"
LOG = "storage/kpystorage/log.py"
DIRECTORIES = "kpybroker/replicas/directories.py"


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
        "a flush that a truncation made void is forgotten while its thread goes on",
        LOG,
        "            take_back(self, self.flushing)\n",
        "            take_back(self, self.flushing)\n            self.flushing = None\n",
    ),
    _planted(
        "a flush that a truncation made void confirms what was written since",
        LOG,
        "        if self.is_open and not flush.is_void:\n",
        "        if self.is_open:\n",
    ),
    _planted(
        "a log is deleted while a thread flushes it",
        DIRECTORIES,
        "        if found.is_in_use:\n",
        "        if found.is_in_use and delay_ms < 0:\n",
    ),
]
