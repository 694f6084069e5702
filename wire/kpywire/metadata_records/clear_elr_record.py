"""ClearElrRecord: type 28 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message, string


@message(key=28, versions="0", flexible="0+")
class ClearElrRecord:
    topic_name: string  # The name of the topic to clear ELRs for, or empty if all ELRs should be cleared.
