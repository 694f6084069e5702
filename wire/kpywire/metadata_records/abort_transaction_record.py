"""AbortTransactionRecord: type 25 in the metadata log."""

from __future__ import annotations

from kpywire.schema import field, message, string


@message(key=25, versions="0", flexible="0+")
class AbortTransactionRecord:
    # An optional textual description of why the transaction was aborted.
    reason: string | None = field(tag=0, default=None)
