"""UnregisterControllerRecord: type 29 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i32, message


@message(key=29, versions="0", flexible="0+")
class UnregisterControllerRecord:
    controller_id: i32  # The controller id.
