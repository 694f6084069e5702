"""KRaftVersionRecord."""

from __future__ import annotations

from kpywire.schema import i16, message


@message(versions="0", flexible="0+")
class KRaftVersionRecord:
    version: i16  # The version of the kraft version record.
    kraft_version: i16  # The kraft protocol version.
