"""Transactional ids and their transactions, and the open transactions of partitions. Pure."""

from dataclasses import dataclass


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
    may_abort: bool
