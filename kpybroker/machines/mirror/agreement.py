"""Whether a mirror and its source agree, and up to where, if no topic id and no Fetch shows it. Pure.

Before Kafka 3.1 a source's brokers answer Fetch by the names of topics, and before 2.7 no answer says where two logs
diverge. So the source is asked where the latest leader epoch of the mirror ends (KIP-101, KIP-320), in the epoch of its
leader; fetches name that epoch, and fail when it has changed. The last batch up to the point of agreement is compared
with the source's.

A topic that was created again has no id to show it. It is found by these contradictions: the source's leader is of an
earlier epoch than the mirror's last batch; its current epoch ends before the mirror does; it has nothing in common with
the mirror; or it has another batch in the same place. A mirror of such a topic is not fed, and loses nothing.

Invariant: a log is truncated only where a leader of a later epoch has fewer records of the mirror's.
"""

from typing import Final

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.divergence import UNDEFINED_EPOCH, EpochEnd
from kpybroker.machines.mirror.feeding import NO_EPOCH, CreatedAgain, FedPartition
from kpywire import error_codes
from kpywire.batch import HEADER_BYTES, LENGTH_END, parse_header
from kpywire.record import read_batch

CREATED_AGAIN: Final = "the topic was created again at the source: delete it here to mirror the new one"


def agreed_end(fed: FedPartition, asked_epoch: int, there: EpochEnd) -> int:
    """The offset up to which both logs agree, by the source's answer for the latest epoch here, ``asked_epoch``.
    Raises CreatedAgain."""
    found = fed.log
    end = found.end.offset
    if NO_EPOCH < fed.epoch < asked_epoch:
        raise created_again(fed, f"its leader is of epoch {fed.epoch}, and the last batch here of {asked_epoch}")
    if there.epoch == UNDEFINED_EPOCH:
        return end
    cut = fed.agrees_up_to(*there)
    if cut >= end:
        return end
    if there.epoch == asked_epoch == fed.epoch:
        raise created_again(fed, f"it ends at {there.end_offset}, before the {end} here, in the same leader epoch")
    if cut <= found.log_start_offset:
        raise created_again(fed, "it has nothing in common with the records here")
    return cut


def check_batch(fed: FedPartition, mine: bytes, theirs: memoryview, *, is_compacted: bool) -> bool:
    """Compare the last batch that both logs should have. False if the source's answer has too little of it. Raises
    CreatedAgain."""
    if len(theirs) < HEADER_BYTES:
        return False
    one, two = parse_header(mine), parse_header(theirs)
    if one == two:
        return True
    if is_compacted:
        if two.base_offset > one.base_offset:
            return True  # the cleaner has removed it
        if len(theirs) < two.batch_length + LENGTH_END:
            return False
        if _is_left_of(theirs, mine):
            return True
    raise created_again(fed, f"it has another batch at offset {one.base_offset}")


def check_start(fed: FedPartition, cut: int, source_start: int) -> None:
    """Check a source that does not have the offset before ``cut``: its retention was faster. Raises CreatedAgain."""
    if source_start < cut:
        raise created_again(fed, f"it begins at {source_start}, and ends before offset {cut}")


def _is_left_of(theirs: memoryview, mine: bytes) -> bool:
    """Whether a cleaner may have made the one batch of the other: all of its records are there."""
    one, two = parse_header(mine), parse_header(theirs)
    if (one.base_offset, one.partition_leader_epoch, one.producer_id) != (
        two.base_offset,
        two.partition_leader_epoch,
        two.producer_id,
    ):
        return False
    whole = {record.offset: record[:5] for record in read_batch(mine, one)}
    return all(
        whole.get(record.offset) == record[:5] for record in read_batch(theirs[: two.batch_length + LENGTH_END], two)
    )


def created_again(fed: FedPartition, why: str) -> KafkaError:
    """The error of a mirror whose source is another topic by now."""
    return CreatedAgain(error_codes.INCONSISTENT_TOPIC_ID, f"{fed.leader.name}: {CREATED_AGAIN}: {why}")
