"""The errors of the wire format. Not here: the error codes that a broker answers with (`kpywire.error_codes`)."""


class Malformed(ValueError):
    """These bytes are not what they claim to be. The one error that decoding raises, whatever the bytes."""


class OfNewerVersion(Malformed):
    """A record of a type or version that only a newer version of Kafka has: it is not damaged, but nobody here can read
    it."""


class UnsupportedVersion(ValueError):
    """A version that a message does not have, or a value that the version cannot carry (UNSUPPORTED_VERSION, 35)."""


class ManyElements(Exception):
    """A message with more elements than are decoded at once. It is to be decoded in steps."""


class TooLong(Exception):
    """A message that would take more bytes than anybody reads."""
