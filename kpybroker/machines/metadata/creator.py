"""The mark of a topic's creator: the last bytes of the topic's id, where a bound per principal is set. Pure.

Kafka's metadata do not say who has created a topic. Ids of topics are random, so a part of one can be a digest of the
principal instead. `kpybroker.machines.controller.topic_bounds` writes and counts marks.
"""

from typing import Final

MARK_BYTES: Final = 6


def mark_of(principal: str) -> bytes:
    """The mark of a principal, such as ``User:alice``, in the ids of its topics."""
    from hashlib import sha256  # it loads OpenSSL's digests

    return sha256(f"creator {principal}".encode()).digest()[:MARK_BYTES]


def creator_in(topic_id: bytes) -> bytes:
    """The mark of the creator in an id."""
    return topic_id[-MARK_BYTES:]
