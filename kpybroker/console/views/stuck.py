"""Why a group does not get on, in a sentence. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kpybroker.console.views.groups import MemberRow, PositionRow

WAITS: Final = "waits for the others"
OWES_JOIN: Final = "has to rejoin"
OWES_SYNC: Final = "has to sync"
TASK: Final = "task "
"""The beginning of what a member of a streams group is assigned."""
LONG_MS: Final = 30_000
FAILS: Final = 3
"""The members that were lost at one position until its record is suspected."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that holds back the readers of committed records."""

    producer_id: int
    transactional_id: str | None
    first_offset: int


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a group."""

    state: str
    members: Sequence[MemberRow]
    positions: Sequence[PositionRow]
    starts: Mapping[tuple[str, int], int]
    """The log start of each partition that is led here."""
    open_transactions: Mapping[tuple[str, int], OpenTransaction]
    lost_members: int
    """Members that were removed since the positions last moved."""
    now_ms: int


def verdict_on(facts: Facts) -> tuple[bool, str]:
    """Whether the group is stuck, and why or why not."""
    behind = [each for each in facts.positions if each.lag]
    for reason in (_rebalancing, _gone, _lost_offset, _held_back, _poisoned, _without_member, _not_fetched, _silent):
        line = reason(facts, behind)
        if line is not None:
            return True, line
    if not facts.positions:
        return False, "It has committed no position yet."
    if not behind:
        return False, "It has read everything."
    return False, "It reads: its positions move."


def verdict_on_reader(spot: str, offset: int, pin: OpenTransaction | None, silent_s: float) -> str:
    """Why a reader without a group gets no more records of a partition that has more; empty if nothing keeps it."""
    if pin is not None:
        return f"It is at offset {offset} of {spot}. If it reads committed records, {_by(pin)} holds it back."
    if silent_s * 1000 > LONG_MS:
        return f"It has not fetched for {silent_s:.0f} s: it is paused, waits for its trigger, or still works."
    return ""


def _by(pin: OpenTransaction) -> str:
    name = f"of {pin.transactional_id}" if pin.transactional_id else f"of producer {pin.producer_id}"
    return f"an open transaction {name}, since offset {pin.first_offset},"


def _rebalancing(facts: Facts, _behind: Sequence[PositionRow]) -> str | None:
    if facts.state not in ("PreparingRebalance", "CompletingRebalance", "Reconciling", "Assigning"):
        return None
    owing = [each for each in facts.members if each.state in (OWES_JOIN, OWES_SYNC)]
    if not owing:
        return "It rebalances, and waits a moment for more members."
    names = ", ".join(f"{each.client_id} at {each.host}" for each in owing[:5])
    what = "rejoin" if owing[0].state == OWES_JOIN else "sync"
    return f"It rebalances: nobody gets records until {names} {what}{'s' if len(owing) == 1 else ''}."


def _gone(facts: Facts, behind: Sequence[PositionRow]) -> str | None:
    if facts.members or not behind or facts.state not in ("Empty", "Dead"):
        return None
    lag = sum(each.lag or 0 for each in behind)
    if any(each.fetched is not None for each in behind):
        return None
    return f"It has no member: nobody reads the {lag} records that are left."


def _lost_offset(facts: Facts, _behind: Sequence[PositionRow]) -> str | None:
    for each in facts.positions:
        start = facts.starts.get((each.topic, each.partition))
        if start is not None and each.committed is not None and each.committed < start:
            return (
                f"The records at its position {each.committed} of {each.topic}-{each.partition} are deleted; the log "
                f"begins at {start}. A member goes on where auto.offset.reset says, or fails."
            )
    return None


def _held_back(facts: Facts, behind: Sequence[PositionRow]) -> str | None:
    for each in behind:
        found = facts.open_transactions.get((each.topic, each.partition))
        position = max(each.committed or 0, each.fetched or 0)
        if found is not None and each.stable_offset is not None and position >= each.stable_offset:
            name = f"of {found.transactional_id}" if found.transactional_id else f"of producer {found.producer_id}"
            return (
                f"An open transaction {name}, since offset {found.first_offset} of {each.topic}-{each.partition}, "
                "holds back every reader of committed records."
            )
    return None


def _poisoned(facts: Facts, behind: Sequence[PositionRow]) -> str | None:
    for each in behind:
        if facts.lost_members >= FAILS and each.committed is not None:
            return (
                f"{facts.lost_members} members were lost while its position stayed at {each.committed} of "
                f"{each.topic}-{each.partition}: its consumers may fail on that record, or take longer for it than "
                "max.poll.interval.ms."
            )
    return None


def _without_member(facts: Facts, behind: Sequence[PositionRow]) -> str | None:
    if any(task.startswith(TASK) for member in facts.members for task in member.assigned):
        return None  # tasks of Kafka Streams do not name their partitions
    for each in behind:
        if facts.members and each.member is None:
            return f"No member has {each.topic}-{each.partition}, which has {each.lag} records that are not read."
    return None


def _not_fetched(facts: Facts, behind: Sequence[PositionRow]) -> str | None:
    for each in behind:
        if each.member is not None and each.fetched is None and _is_old(facts, each):
            return (
                f"{each.member} has {each.topic}-{each.partition} and does not fetch it: it is paused, or still works "
                "on what it has."
            )
    return None


def _silent(facts: Facts, behind: Sequence[PositionRow]) -> str | None:
    for each in behind:
        has_read = each.fetched is not None and each.committed is not None and each.fetched > each.committed
        if has_read and _is_old(facts, each):
            return (
                f"{each.member or 'A member'} reads {each.topic}-{each.partition}, and has not committed for "
                f"{(facts.now_ms - (each.commit_ms or 0)) // 1000} s."
            )
    return None


def _is_old(facts: Facts, each: PositionRow) -> bool:
    return each.commit_ms is not None and facts.now_ms - each.commit_ms > LONG_MS
