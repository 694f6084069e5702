"""BeginTransactionRecord: type 23 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, message, string


@message(key=23, versions="0", flexible="0+")
class BeginTransactionRecord:
    name: string | None = field(tag=0, default=None)  # An optional textual description of this transaction.
