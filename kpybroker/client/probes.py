"""Questions to a server that hung up or answered in another protocol: which one does it speak, and to whom?

Each is a connection of its own, made only after a failure, and bounded by a second or two. So an error names its cause
instead of a connection that was lost. A probe never raises; it answers "no" if it finds nothing out.
"""

import socket
import ssl
from typing import Any, Final

from kpybroker.client.conversation import CLIENT_ID, SIZE, SOFTWARE, Conversation
from kpybroker.machines.errors import KafkaError
from kpywire import api, error_codes
from kpywire.errors import Malformed
from kpywire.messages.sasl_handshake import SaslHandshakeRequest

PATIENCE_S: Final = 1.0
ANY_VERSION: Final = 0
HANDSHAKE_VERSION: Final = 1
_FAILURES = (OSError, KafkaError, Malformed)


def unverified_context() -> ssl.SSLContext:
    """A context that trusts everybody. Nothing secret may be sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def is_http(host: str, port: int) -> bool:
    """Whether the server answers a web browser."""
    try:
        with socket.create_connection((host, port), PATIENCE_S) as peer:
            peer.settimeout(PATIENCE_S)
            peer.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return peer.recv(4) == b"HTTP"
    except OSError:
        return False


def is_tls(host: str, port: int) -> bool:
    """Whether the server answers a TLS hello, with a handshake or an alert."""
    context = unverified_context()
    try:
        with _connected(host, port) as peer, context.wrap_socket(peer, server_hostname=host):
            return True
    except ssl.SSLError as error:
        return "_ALERT_" in (error.reason or "")
    except OSError:
        return False


def is_kafka(host: str, port: int) -> bool:
    """Whether the server answers Kafka's ApiVersions without TLS."""
    try:
        with _connected(host, port) as peer:
            _ask(peer, Conversation("", CLIENT_ID), SOFTWARE, ANY_VERSION)
    except _FAILURES:
        return False
    return True


def mechanisms(host: str, port: int, context: ssl.SSLContext | None = None) -> list[str]:
    """The SASL mechanisms of a listener that demands a login, behind TLS with a ``context``; none if it demands
    none."""
    try:
        with _connected(host, port) as raw:
            if context is None:
                return _mechanisms(raw)
            with context.wrap_socket(raw, server_hostname=host) as encrypted:
                return _mechanisms(encrypted)
    except _FAILURES:
        return []


def certificate(host: str, port: int) -> bytes | None:
    """The certificate that the server shows, as DER, trusted or not."""
    context = unverified_context()
    try:
        with _connected(host, port) as raw, context.wrap_socket(raw, server_hostname=host) as encrypted:
            return encrypted.getpeercert(binary_form=True)
    except OSError:
        return None


def _connected(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), PATIENCE_S)


def _mechanisms(peer: socket.socket) -> list[str]:
    conversation = Conversation("", CLIENT_ID)
    conversation.greeted(_ask(peer, conversation, SOFTWARE, ANY_VERSION))
    if not conversation.serves(api.SASL_HANDSHAKE, HANDSHAKE_VERSION):
        return []
    answer = _ask(peer, conversation, SaslHandshakeRequest(mechanism=""), HANDSHAKE_VERSION)
    return sorted(answer.mechanisms) if answer.error_code == error_codes.UNSUPPORTED_SASL_MECHANISM else []


def _ask(peer: socket.socket, conversation: Conversation, request: Any, version: int) -> Any:
    peer.sendall(conversation.frame(request, version))
    frame = _exactly(peer, conversation.size(_exactly(peer, SIZE.size)))
    return conversation.answer(type(request).KEY, version, frame)


def _exactly(peer: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        piece = peer.recv(min(count - len(received), 1 << 16))
        if not piece:
            raise ConnectionResetError("the server closed the connection")
        received += piece
    return bytes(received)
