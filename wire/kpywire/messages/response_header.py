"""ResponseHeader."""

from __future__ import annotations

from kpywire.schema import i32, message


@message(versions="0-1", flexible="1+")
class ResponseHeader:
    """Version 1 is the first flexible version."""

    correlation_id: i32  # The correlation ID of this response.
