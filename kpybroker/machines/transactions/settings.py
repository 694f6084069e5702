"""The settings of transactions (Kafka: ``TransactionConfig``, and the feature ``transaction.version``)."""

from typing import NamedTuple


class TransactionSettings(NamedTuple):
    """The settings of transactions. They are read for every decision, so a dynamic change applies at once."""

    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``."""
    timeout_check_interval_ms: int = 10_000
    """``transaction.abort.timed.out.transaction.cleanup.interval.ms``: the least interval at which timed out
    transactions are aborted, all of them together."""
    transactional_id_expiration_ms: int = 7 * 24 * 3_600_000
    """``transactional.id.expiration.ms``."""
    max_batch_bytes: int = 1_048_588
    """``max.message.bytes`` of the topic: an upper bound for one batch of records."""
    transaction_version: int = 2
    """The finalised level of ``transaction.version``: 0, 1 or 2 (KIP-890)."""
