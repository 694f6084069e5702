"""Values of ``__transaction_state`` in the layout that brokers write, taken apart without the general decoder.

A log of many transactions is nothing else. What is not recognised is left to the decoder, which is slower and says what
is wrong. Partitions that transactions have in common are kept once.

Invariant: what is recognised here, the decoder reads as the same.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812

from kpybroker.transactions.events import Partition
from kpybroker.transactions.transaction import NO_EPOCH, NO_ID, State, Transaction

_HEAD = Struct(">hqhib")
_INT = Struct(">i")
_TAIL = Struct(">qqBHq")
"""Both times, one tag: the producer id before."""
_TAIL_WITH_VERSION = Struct(">qqBHqHh")
"""The same and the version of the client."""
_PREVIOUS_ID_TAG = 0x0008
_VERSION_TAG = 0x0202
_STATES = {int(state): state for state in State if state not in (State.DEAD, State.PREPARE_EPOCH_FENCE)}
_VALUE_VERSION = 1
_ONE_BYTE = 0x80
"""Lengths from here on take another byte."""


def read_usual(value: bytes) -> Transaction | None:
    """The transaction in a value of version 1, or None if the layout is another one."""
    try:
        version, producer_id, epoch, timeout_ms, status = _HEAD.unpack_from(value)
        start = len(value) - _TAIL_WITH_VERSION.size
        last_update_ms, start_ms, tags, tag, previous_id, second, client_version = _TAIL_WITH_VERSION.unpack_from(
            value, start
        )
        if tags != 2 or tag != _PREVIOUS_ID_TAG or second != _VERSION_TAG:
            client_version = 0
            start = len(value) - _TAIL.size
            last_update_ms, start_ms, tags, tag, previous_id = _TAIL.unpack_from(value, start)
            if tags != 1 or tag != _PREVIOUS_ID_TAG:
                return None
    except StructError:
        return None
    state = _STATES.get(status)
    partitions = _partitions(value[_HEAD.size : start])
    if version != _VALUE_VERSION or state is None or partitions is None:
        return None
    return Transaction(
        producer_id,
        epoch,
        timeout_ms,
        state,
        partitions,
        last_update_ms,
        start_ms,
        previous_id,
        NO_ID,
        client_version,
        NO_EPOCH,
    )


@lru_cache(1024)
def _partitions(section: bytes) -> frozenset[Partition] | None:
    """Those of a compact array of topics, which is all of the section; None if it is not."""
    if section in (b"\0", b"\1"):
        return frozenset()
    found: list[Partition] = []
    try:
        position = 1
        for _ in range(_length(section, 0)):
            name_end = position + 1 + _length(section, position)
            name = section[position + 1 : name_end].decode()
            position = name_end + 1
            for _ in range(_length(section, name_end)):
                found.append((name, _INT.unpack_from(section, position)[0]))
                position += _INT.size
            if section[position]:
                return None  # a tag that nobody knows
            position += 1
    except (IndexError, StructError, UnicodeDecodeError, ValueError):
        return None
    return frozenset(found) if position == len(section) else None


def _length(section: bytes, position: int) -> int:
    """A compact length of one byte. Raises ValueError for another."""
    length = section[position]
    if not 0 < length < _ONE_BYTE:
        raise ValueError(length)
    return length - 1
