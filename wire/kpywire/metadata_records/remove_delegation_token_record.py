"""RemoveDelegationTokenRecord: type 26 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message, string


@message(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord:
    token_id: string  # The tokenID to remove.
