"""Transactional ids and their transactions, and the open transactions of partitions. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id that this node coordinates."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    open_s: float | None
    """How long its transaction has been open; None if none is."""
    partitions: tuple[str, ...]
    may_abort: bool


@dataclass(frozen=True, slots=True)
class PinRow:
    """An open transaction in a partition led here: readers of committed records stop at its first offset."""

    topic: str
    partition: int
    producer_id: int
    transactional_id: str | None
    first_offset: int
    end_offset: int
    last_write_ms: int


@dataclass(frozen=True, slots=True)
class TransactionsPage:
    """The transactions that this node knows of."""

    search: str
    page: int
    pages: int
    total: int
    transactions: tuple[TransactionRow, ...]
    pins: tuple[PinRow, ...]
    pins_left_out: int


TRANSACTION_KEYS: Final[Keys[TransactionRow]] = {
    "id": lambda row: row.transactional_id,
    "state": lambda row: row.state,
    "producer": lambda row: row.producer_id,
    "epoch": lambda row: row.producer_epoch,
    "open": lambda row: row.open_s,
    "timeout": lambda row: row.timeout_ms,
    "partitions": lambda row: row.partitions,
}
PIN_KEYS: Final[Keys[PinRow]] = {
    "partition": lambda row: (row.topic, row.partition),
    "of": lambda row: row.transactional_id,
    "by": lambda row: row.producer_id,
    "since": lambda row: row.first_offset,
    "held": lambda row: row.end_offset - row.first_offset,
    "written": lambda row: row.last_write_ms,
}
"""The columns of the two lists by which a viewer sorts them."""
