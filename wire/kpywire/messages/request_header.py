"""RequestHeader."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string


@message(versions="1-2", flexible="2+")
class RequestHeader:
    """Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.

    Version 0 of the RequestHeader is only used by v0 of ControlledShutdownRequest.

    Version 1 is the first version with ClientId.

    Version 2 is the first flexible version.
    """

    request_api_key: i16  # The API key of this request.
    request_api_version: i16  # The API version of this request.
    correlation_id: i32  # The correlation ID of this request.
    client_id: string | None = field(flexible="none")  # The client ID string.
