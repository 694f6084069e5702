"""ControlRecordTypeSchema."""

from __future__ import annotations

from kpywire.schema import i16, message


@message(versions="0")
class ControlRecordTypeSchema:
    type: i16  # The type of the control record, such as commit or abort
