"""Values of ``__transaction_state`` in the layout that brokers write, decoded and encoded without the general codec.

A log of many transactions consists of them. A value that is not recognised is left to the codec, which is slower and
reports what is wrong. Equal sets of partitions are kept once.

Invariant: what is recognised here, the codec reads as the same; what is written here, it would write the same.
"""

from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

from kpybroker.machines.transactions.events import Partition
from kpybroker.machines.transactions.transaction import NO_EPOCH, NO_ID, Transaction, TransactionState

_HEAD: Final = Struct(">hqhib")
_INT: Final = Struct(">i")
_TAIL: Final = Struct(">qqBHq")
"""Both times, and one tag: the previous producer id."""
_TAIL_WITH_VERSION: Final = Struct(">qqBHqHh")
"""The same with a second tag: the client's version."""
_PREVIOUS_ID_TAG: Final = 0x0008
_VERSION_TAG: Final = 0x0202
_STATES: Final = {
    int(state): state
    for state in TransactionState
    if state not in (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)
}
_VALUE_VERSION: Final = 1
_ONE_BYTE: Final = 0x80
"""Lengths from here on take another byte."""
_LONGEST_SECTION: Final = 0x7E
"""The longest name or array: its length plus one is a byte below `_ONE_BYTE`."""


def write_usual(transaction: Transaction) -> bytes | None:
    """Encode the value of a transaction in version 1; None if a field does not fit this layout."""
    if transaction.next_producer_id != NO_ID or transaction.previous_producer_id == NO_ID:
        return None
    state, client_version = transaction.state, transaction.client_version
    partitions = b"\0" if state is TransactionState.EMPTY else _section(transaction.partitions)
    if partitions is None:
        return None
    head = _HEAD.pack(
        _VALUE_VERSION, transaction.producer_id, transaction.producer_epoch, transaction.timeout_ms, int(state)
    )
    times = transaction.last_update_ms, transaction.start_ms
    previous = _PREVIOUS_ID_TAG, transaction.previous_producer_id
    if client_version:
        return head + partitions + _TAIL_WITH_VERSION.pack(*times, 2, *previous, _VERSION_TAG, client_version)
    return head + partitions + _TAIL.pack(*times, 1, *previous)


@lru_cache(1024)
def _section(partitions: frozenset[Partition]) -> bytes | None:
    """Encode a compact array of topics with their partitions, in order; None if a length takes more than a byte."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    if len(by_topic) > _LONGEST_SECTION:
        return None
    parts = [bytes((len(by_topic) + 1,))]
    for topic, indexes in by_topic.items():
        name = topic.encode()
        if len(name) > _LONGEST_SECTION or len(indexes) > _LONGEST_SECTION:
            return None
        parts += (bytes((len(name) + 1,)), name, bytes((len(indexes) + 1,)))
        parts += [_INT.pack(index) for index in indexes]
        parts.append(b"\0")
    return b"".join(parts)


def read_usual(value: bytes) -> Transaction | None:
    """Decode the transaction from a value of version 1; None if the layout is another one."""
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
    """Decode the partitions from a compact array of topics, which is all of the section; None if it is not."""
    if section in (b"\0", b"\1"):
        return frozenset()
    found: list[Partition] = []
    try:
        position = 1
        for _topic in range(_length(section, 0)):
            name_end = position + 1 + _length(section, position)
            name = section[position + 1 : name_end].decode()
            position = name_end + 1
            for _partition in range(_length(section, name_end)):
                found.append((name, _INT.unpack_from(section, position)[0]))
                position += _INT.size
            if section[position]:
                return None  # a tag that nobody knows
            position += 1
    except (IndexError, StructError, UnicodeDecodeError, ValueError):
        return None
    return frozenset(found) if position == len(section) else None


def _length(section: bytes, position: int) -> int:
    """Decode a compact length of one byte. Raises ValueError for another."""
    length = section[position]
    if not 0 < length < _ONE_BYTE:
        raise ValueError(length)
    return length - 1
