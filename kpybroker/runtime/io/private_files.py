"""Files with secrets that a program writes for its own user: of mode 0600 from the first byte, whatever was there.

Logs are not written here: `kpystorage.modes` decides for them.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700


def write_private(path: Path, text: str) -> None:
    """Write a file for this user alone, all of it or nothing. Raises OSError."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def make_private(directory: Path) -> None:
    """Make a directory that only this user may enter, or close one that is there. Raises OSError."""
    directory.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    if directory.stat().st_mode & 0o077:
        directory.chmod(DIRECTORY_MODE)
