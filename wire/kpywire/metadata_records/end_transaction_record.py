"""EndTransactionRecord: type 24 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message


@message(key=24, versions="0", flexible="0+")
class EndTransactionRecord:
    pass
