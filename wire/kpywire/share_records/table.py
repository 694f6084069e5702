"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""

from typing import Final

SHARE_SNAPSHOT: Final = 0
SHARE_UPDATE: Final = 1

MODULES: dict[int, str] = {
    SHARE_SNAPSHOT: "share_snapshot",
    SHARE_UPDATE: "share_update",
}
