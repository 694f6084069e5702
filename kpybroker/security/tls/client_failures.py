"""Failed TLS handshakes of a client, in words that say what to mend."""

import ssl
from typing import Final

_WORDS: Final = {
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust this node's certificate; its trust store lacks the CA",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side refuses the certificate of this node, or the lack of one",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the other side refuses the certificate of this node",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the certificate of this node has expired, says the other side",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side demands a certificate; ssl.keystore.location is not set here",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "no cipher suite, signature or certificate suits both sides",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the versions of TLS differ; see ssl.enabled.protocols on both sides",
    "UNSUPPORTED_PROTOCOL": "the versions of TLS differ; see ssl.enabled.protocols on both sides",
    "NO_PROTOCOLS_AVAILABLE": "ssl.enabled.protocols leaves no version of TLS",
    "TLSV1_ALERT_INTERNAL_ERROR": "the other side answers with an internal error; its log has the reason",
    "WRONG_VERSION_NUMBER": "the other side speaks no TLS; is its listener PLAINTEXT or SASL_PLAINTEXT?",
    "RECORD_LAYER_FAILURE": "the other side speaks no TLS; is its listener PLAINTEXT or SASL_PLAINTEXT?",
}
CLOSED: Final = "the other side closed the connection; does its listener speak TLS?"


def in_words(error: ssl.SSLError) -> str:
    """The reason of a failed handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error)
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return CLOSED
    reason = error.reason or str(error)
    return _WORDS.get(reason, reason.replace("_", " ").lower())


def _untrusted(error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message
    if "ostname mismatch" in why or "IP address mismatch" in why:
        return (
            f"its certificate is for another host ({why.rstrip('.')}); the name or address by which it is registered "
            "must be among the certificate's subject alternative names"
        )
    if "expired" in why or "not yet valid" in why:
        return f"its certificate is not valid now ({why})"
    return f"its certificate is not trusted ({why}); ssl.truststore.location must hold the CA that issued it"
