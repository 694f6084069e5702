"""RequestHeader."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, message, string


@message(versions="1-2", flexible="2+")
class RequestHeader:
    """Version 0 of the RequestHeader is only used by v0 of ControlledShutdownRequest.
    Version 1 is the first version with ClientId.
    Version 2 is the first flexible version.
    """

    request_api_key: i16  # The API key of this request.
    request_api_version: i16  # The API version of this request.
    correlation_id: i32  # The correlation ID of this request.
    # The client ID string.
    # The ClientId string must be serialized with the old-style two-byte length prefix. The reason is that older brokers
    # must be able to read the request header for any ApiVersionsRequest, even if it is from a newer version. Since the
    # client is sending the ApiVersionsRequest in order to discover what versions are supported, the client does not
    # know the best version to use.
    client_id: string | None = field(flexible="none")
