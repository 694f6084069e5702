"""NoOpRecord: type 20 in the metadata log."""

from __future__ import annotations

from kpywire.schema import message


@message(key=20, versions="0", flexible="0+")
class NoOpRecord:
    pass
