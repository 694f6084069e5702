"""What rules transactions from outside (Kafka: ``TransactionConfig``, and the feature ``transaction.version``)."""

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    """Read anew with every decision, so that a dynamic change counts at once."""

    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``."""
    timeout_check_interval_ms: int = 10_000
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``: timed out transactions are aborted together,
    at least so far apart."""
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    """``transactional.id.expiration.ms``."""
    max_batch_bytes: int = 1_048_588
    """``max.message.bytes`` of the topic: how much is written at once where much is to be written."""
    transaction_version: int = 2
    """The finalised level of ``transaction.version``: 0, 1 or 2 (KIP-890)."""
