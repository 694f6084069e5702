"""Why a share group does not get on, in a sentence: locks, records that come back again and again, silence. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.groups import MemberRow, RecordPlace, ShareRow
from kpybroker.machines.console.stuck import GroupVerdict, StuckReason, not_stuck, stuck_by, without_readers
from kpybroker.machines.console.wording import counted, digits

LONG_S: Final = 15.0
"""A lock, or a silence, of this length is long: half of Kafka's default for a lock, three heartbeats."""
OFTEN: Final = 3
"""The deliveries after which a record is suspected."""


@dataclass(frozen=True, slots=True)
class ShareFacts:
    """The facts about a share group."""

    members: Sequence[MemberRow]
    shares: Sequence[ShareRow]
    without_state: Sequence[str]
    """The partitions that wait for their delivery state, and are given to nobody before."""
    unassigned: Sequence[str]
    """The partitions with a state that no member has."""


def verdict_on_shares(facts: ShareFacts) -> GroupVerdict:
    """Whether the group is stuck, and why or why not."""
    for found in (_gone, _silent, _poisoned, _full, _held, _without_state, _unassigned):
        reason = found(facts)
        if reason is not None:
            return stuck_by(*reason)
    unread, locked = (sum(getattr(each, name) for each in facts.shares) for name in ("unread", "locked"))
    if not facts.shares:
        return not_stuck("Nobody reads in it on this node; the leaders of its partitions know more.")
    if not unread:
        return not_stuck("It has read everything.")
    return not_stuck(
        f"It reads: {counted(unread, 'record is', 'records are')} left, of which members have {digits(locked)} now.",
    )


def _gone(facts: ShareFacts) -> StuckReason | None:
    unread = sum(each.unread for each in facts.shares)
    if facts.members or not unread:
        return None
    return StuckReason(without_readers(unread))


def _silent(facts: ShareFacts) -> StuckReason | None:
    for each in facts.members:
        if each.silent_s is not None and each.silent_s >= LONG_S:
            return StuckReason(
                f"{each.client_id} at {each.host} has sent no heartbeat for {each.silent_s:.0f} s: its records stay "
                "locked until their locks end."
            )
    return None


def _poisoned(facts: ShareFacts) -> StuckReason | None:
    for each in facts.shares:
        if each.retried_offset is not None and each.deliveries >= OFTEN:
            return StuckReason(
                f"Record {each.retried_offset} of {_name(each)} was delivered {each.deliveries} times of at most "
                f"{each.most_deliveries}: its consumers may fail on it, or take longer for it than its lock lasts.",
                RecordPlace(each.topic, each.partition, each.retried_offset),
            )
    return None


def _full(facts: ShareFacts) -> StuckReason | None:
    for each in facts.shares:
        if each.locked >= each.most_locked > 0:
            return StuckReason(
                f"Members have {counted(each.locked, 'record')} of {_name(each)}, as many as "
                "share.partition.max.record.locks allows; the oldest lock is that of "
                f"{each.holder}, for {each.held_s or 0.0:.0f} s."
            )
    return None


def _held(facts: ShareFacts) -> StuckReason | None:
    for each in facts.shares:
        if each.held_s is not None and each.held_s >= LONG_S:
            return StuckReason(
                f"{each.holder} has had record {each.held_offset} of {_name(each)} for {each.held_s:.0f} s without an "
                f"acknowledgement; its lock ends in {each.lock_left_s or 0.0:.0f} s.",
                RecordPlace(each.topic, each.partition, each.held_offset or 0),
            )
    return None


def _without_state(facts: ShareFacts) -> StuckReason | None:
    if not facts.members or not facts.without_state:
        return None
    return StuckReason(
        f"{facts.without_state[0]} waits for its delivery state: until it has one, nobody gets its records."
    )


def _unassigned(facts: ShareFacts) -> StuckReason | None:
    if not facts.members or not facts.unassigned:
        return None
    return StuckReason(f"No member has {facts.unassigned[0]} yet.")


def _name(share: ShareRow) -> str:
    return f"{share.topic}-{share.partition}"
