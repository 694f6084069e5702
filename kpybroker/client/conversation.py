"""The requests and answers of one connection to a broker, without a socket: frames, correlation ids, versions.

Two shells send and receive the bytes: `kpybroker.client.connection` blocks, `kpybroker.client.asyncio_connection` runs
on an event loop. The version of each request is the newest that both sides know (KIP-511).
"""

from struct import Struct
from typing import Any, Final

from kpybroker import __version__
from kpybroker.machines.errors import KafkaError
from kpywire import api, codec, error_codes
from kpywire.errors import Malformed
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kpywire.varint import Buffer

CLIENT_ID: Final = "kpybroker"
SOFTWARE: Final = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
GREETING_VERSIONS: Final = (3, 0)
"""The versions of ApiVersions to try, one after the other while the broker refuses them."""
FIRST_OF_FORM: Final = {api.DELETE_TOPICS: 6, api.FIND_COORDINATOR: 4, api.OFFSET_FETCH: 8}
"""The first versions of the form in which requests are made here; `older_forms` has those before them."""
SIZE: Final = Struct(">i")
OTHER_PROTOCOLS: Final = {
    b"HTTP": "HTTP",
    b"<!DO": "HTTP",
    b"<htm": "HTTP",
    b"<HTM": "HTTP",
    b"\x15\x03\x01\x00": "TLS",
    b"\x15\x03\x03\x00": "TLS",
}
"""The first bytes of answers from servers that speak other protocols."""
MOST_RESPONSE_BYTES: Final = 256 * 1024 * 1024


class Conversation:
    """The state of one connection: the versions that the broker serves, and the request that waits for its answer."""

    def __init__(self, address: str, client_id: str) -> None:
        """``address`` names the broker in errors."""
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}

    def version(self, key: int, newest: int | None = None) -> int:
        """The version to use for an API key, ``newest`` at most; KafkaError (UNSUPPORTED_VERSION) if there is none."""
        known = api.API_KEYS[key]
        first, last = self._versions.get(key, (0, -1))
        version = min(last, known.max_version if newest is None else newest)
        if version < max(first, known.min_version):
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"{self.address} does not serve {known.name}")
        return version

    def serves(self, key: int, version: int) -> bool:
        """Whether the broker serves this version of an API."""
        first, last = self._versions.get(key, (0, -1))
        return first <= version <= last

    def frame(self, request: Any, version: int) -> bytes:
        """A request with its header and size. Raises UnsupportedVersion if that version cannot say it."""
        body = codec.encode(request, version)
        self._correlation_id += 1
        header = encode_request_header(type(request).KEY, version, self._correlation_id, self._client_id)
        return SIZE.pack(len(header) + len(body)) + header + body

    def size(self, start: bytes) -> int:
        """The size of an answer by its first four bytes; Malformed if no answer has it."""
        size: int = SIZE.unpack(start)[0]
        if not 0 <= size <= MOST_RESPONSE_BYTES:
            raise Malformed(f"an answer of {size} bytes")
        return size

    def answer(self, key: int, version: int, frame: Buffer) -> Any:
        """The response in a frame, without its size. Malformed if it does not answer the last request."""
        correlation_id, start = decode_response_header(key, version, frame)
        if correlation_id != self._correlation_id:
            raise Malformed(f"answer {correlation_id} to request {self._correlation_id}")
        if key == api.API_VERSIONS and frame[start : start + 2] == b"\0\x23":
            version = 0  # UNSUPPORTED_VERSION comes in version 0
        return codec.decode(api.response_class(key), version, frame, start)

    def greeted(self, answer: ApiVersionsResponse) -> bool:
        """Take over the versions that the broker serves; False if it wants ApiVersions in an older version."""
        if answer.error_code:
            return False
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        return True
