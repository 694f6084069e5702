"""The producers whose transactions a leader may write to, as verified with their coordinators (KIP-890). Pure.

Before the first batch of a transaction the leader asks the coordinator whether the partition belongs to it. The
question begins with :meth:`Verifications.begin`, which returns a `Verification`. The answer marks it, and the append
checks it. A marker that is written in between ends the verification: a late batch is refused, and cannot open a
transaction that would never end.
(Kafka: ``VerificationStateEntry``, ``VerificationGuard``.)

Invariant: a producer without a verification here opens no transaction in this partition.
"""

from kpystorage.errors import InvalidTxnState, OutOfOrderSequence
from kpystorage.producer_states import ProducerStates
from kpywire.batch import BatchHeader


class Verification:
    """The verification of one producer's transaction. ``bumps_epoch``: every transaction has an epoch of its own."""

    __slots__ = ("began_ms", "bumps_epoch", "epoch", "lowest_sequence", "verified")

    def __init__(self, epoch: int, sequence: int, now_ms: int, *, bumps_epoch: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        self.began_ms = now_ms
        self.bumps_epoch = bumps_epoch
        self.verified = False


class Verifications:
    """The verifications of one partition, by producer id. Each ends with the transaction's first batch or its
    marker."""

    __slots__ = ("of_producers",)

    def __init__(self) -> None:
        self.of_producers: dict[int, Verification] = {}

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, bumps_epoch: bool) -> Verification:
        """Begin a verification; ``sequence`` is that of the batch that waits for it."""
        known = self.of_producers.get(producer_id)
        if known is None or epoch > known.epoch:
            known = Verification(epoch, sequence, now_ms, bumps_epoch=bumps_epoch)
            self.of_producers[producer_id] = known
        elif epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, sequence)
        return known

    def require(self, producer_id: int) -> None:
        """Raise InvalidTxnState unless a transaction of this producer may be opened here."""
        known = self.of_producers.get(producer_id)
        if known is None or not known.verified:
            raise InvalidTxnState("Record was not part of an ongoing transaction")

    def check_sequence(self, header: BatchHeader, producers: ProducerStates) -> None:
        """Check that a batch that opens a transaction is the first one that its producer sent.

        Raises:
            OutOfOrderSequence: the batch was sent after another one that was refused.
        """
        producer_id, sequence = header.producer_id, header.base_sequence
        known = self.of_producers[producer_id]
        if known.bumps_epoch and sequence > 0 and producer_id not in producers.producers:
            raise OutOfOrderSequence(
                f"Invalid sequence number for producer {producer_id} at offset {header.base_offset} in partition "
                f"{producers.name}: {sequence} (incoming seq. number). Expected sequence 0 for transactions v2 "
                "idempotent producer with no existing state."
            )
        if sequence > known.lowest_sequence:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {producer_id} at offset {header.base_offset} in partition "
                f"{producers.name}: {sequence} (incoming seq. number), {known.lowest_sequence} (earliest seen "
                "sequence)"
            )

    def end(self, producer_id: int) -> None:
        """End a verification: the transaction has begun here, or is over."""
        self.of_producers.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget verifications that began ``expiration_ms`` ago and led to nothing."""
        for producer_id, known in list(self.of_producers.items()):
            if now_ms - known.began_ms >= expiration_ms:
                del self.of_producers[producer_id]
