"""RemoveAccessControlEntryRecord: type 19 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message, uuid


@message(key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord:
    id: uuid  # The ID of the AccessControlEntry to remove.
