"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""

SHARE_SNAPSHOT = 0
SHARE_UPDATE = 1

MODULES: dict[int, str] = {
    SHARE_SNAPSHOT: "share_snapshot",
    SHARE_UPDATE: "share_update",
}
