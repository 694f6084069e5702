"""Why a group does not get on, in a sentence. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kpybroker.machines.console.groups import MemberRow, PositionRow, RecordPlace
from kpybroker.machines.console.wording import counted, rate, seconds
from kpybroker.machines.groups.facts import OWES_JOIN, OWES_SYNC

TASK: Final = "task "
"""The beginning of what a member of a streams group is assigned."""
LONG_MS: Final = 30_000
WATCHED_S: Final = 10.0
"""The time after which the pace of a group is known."""
KEEPS_UP_S: Final = 10.0
"""The seconds of new records that a group may be behind and still keeps up: commits come in steps."""
HIDDEN: Final = "Its positions are in topics that you may not see."
FAILS: Final = 3
"""The members that were lost at one position until its record is suspected."""


class StuckReason(NamedTuple):
    """Why a group is stuck, and the record that the sentence names, if it names one."""

    line: str
    at: RecordPlace | None = None


class GroupVerdict(NamedTuple):
    """Whether a group is stuck, why or why not, and the record that the sentence names."""

    is_stuck: bool
    line: str
    at: RecordPlace | None = None


def stuck_by(line: str, at: RecordPlace | None = None) -> GroupVerdict:
    """The verdict on a group that is stuck."""
    return GroupVerdict(is_stuck=True, line=line, at=at)


def not_stuck(line: str) -> GroupVerdict:
    """The verdict on a group that gets on, or has nothing to do."""
    return GroupVerdict(is_stuck=False, line=line)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that holds back the readers of committed records."""

    producer_id: int
    transactional_id: str | None
    first_offset: int


class ReadingPace(NamedTuple):
    """How fast a group reads, and how fast records are written for it, over the time that it was watched."""

    read_per_s: float
    written_per_s: float
    over_s: float

    @property
    def falls_behind(self) -> bool:
        """Whether it reads slower than is written, by more than commits in steps can feign."""
        least = 0.03 if self.over_s * 1000 >= LONG_MS else 0.1
        return self.written_per_s - self.read_per_s > least * self.written_per_s

    def keeps_up(self, lag: int) -> bool:
        """Whether a group with this lag reads, and has no more left than commits in steps can feign."""
        return self.read_per_s > 0 and lag <= self.written_per_s * KEEPS_UP_S

    def left_s(self, lag: int) -> float | None:
        """The time until everything is read; None if that is never."""
        gained_per_s = self.read_per_s - self.written_per_s
        return None if self.falls_behind or gained_per_s <= 0 else lag / gained_per_s

    def outlook(self, lag: int) -> str:
        """Whether a group with this lag catches up, in words."""
        if self.keeps_up(lag):
            return "it keeps up"
        if self.falls_behind:
            return "it falls further behind and never catches up"
        left_s = self.left_s(lag)
        return "its lag stays" if left_s is None else f"it catches up in {seconds(max(1.0, left_s))}"


@dataclass(frozen=True, slots=True)
class ReadingFacts:
    """The facts about a group."""

    state: str
    members: Sequence[MemberRow]
    positions: Sequence[PositionRow]
    open_transactions: Mapping[tuple[str, int], OpenTransaction]
    lost_members: int
    """Members that were removed since the positions last moved."""
    now_ms: int
    assigned_ms: int | None = None
    """The time of the last assignment, or of the last member that joined; None if that was before this node knew it."""
    still_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """How long each position has been watched without a change."""
    pace: ReadingPace | None = None
    """None until it was watched for some seconds."""
    is_partial: bool = False
    """Whether there are positions that are not here, since the viewer may not see their topics, or there are too
    many."""
    reads_elsewhere: bool = False
    """Whether members may read from followers on other nodes, whose fetches this node does not see."""
    led_elsewhere: Collection[tuple[str, int]] = ()
    """The partitions that other nodes lead, whose fetches this node does not see either."""


def verdict_on(facts: ReadingFacts) -> GroupVerdict:
    """Whether the group is stuck, and why or why not."""
    behind = [each for each in facts.positions if each.lag]
    for found in (_rebalancing, _gone, _lost_offset, _held_back, _poisoned, _without_member, _not_fetched, _silent):
        reason = found(facts, behind)
        if reason is not None:
            return stuck_by(*reason)
    return not_stuck(_progress(facts, behind))


def _progress(facts: ReadingFacts, behind: Sequence[PositionRow]) -> str:
    """How a group gets on that is not stuck, no more than is known."""
    if not facts.members and all(each.fetched is None for each in facts.positions):
        return "It has no member. It has read everything." if _is_known(facts) else "It has no member."
    if behind and facts.pace is not None and facts.pace.read_per_s > 0 and facts.pace.falls_behind:
        return _speed(facts, sum(each.lag or 0 for each in behind))
    for each in facts.positions:
        if each.member is not None and _waits(each) and each.fetched is None and _is_seen(facts, each):
            return f"{each.member} has {_spot(each)}, and does not fetch it yet: {_waiting(each)}."
    if behind:
        return _speed(facts, sum(each.lag or 0 for each in behind))
    unknown = [each for each in facts.positions if each.lag is None]
    if unknown:
        seen = " It has read everything else." if len(unknown) < len(facts.positions) else ""
        return f"{_unknown(unknown)}{seen}"
    if facts.is_partial:
        return "It has read everything of the positions that are shown." if facts.positions else HIDDEN
    return "It has read everything." if facts.positions else "It has committed no position yet."


def _is_known(facts: ReadingFacts) -> bool:
    return bool(facts.positions) and not facts.is_partial and all(each.lag is not None for each in facts.positions)


def _unknown(rows: Sequence[PositionRow]) -> str:
    led = [each for each in rows if each.end_offset is not None]
    if led:
        reads = "has" if led[0].fetched is None else "reads"
        return (
            f"{led[0].member or 'A member'} {reads} {_spot(led[0])}, and has never committed there: {_waiting(led[0])}."
        )
    more = "" if len(rows) == 1 else f" and {len(rows) - 1} more"
    return f"Another node leads {_spot(rows[0])}{more}, and knows how far it is."


def _speed(facts: ReadingFacts, lag: int) -> str:
    left = f"{counted(lag, 'record is', 'records are')} left"
    pace = facts.pace
    if pace is None:
        return f"{left}. Whether it catches up is known after {WATCHED_S:.0f} s."
    rates = f"It commits {rate(pace.read_per_s)} records/s, and {rate(pace.written_per_s)}/s are written"
    if pace.left_s(lag) is None:
        return f"{rates}: {pace.outlook(lag)}. {left}."
    return f"{rates}. {left}: {pace.outlook(lag)}."


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


def _rebalancing(facts: ReadingFacts, _behind: Sequence[PositionRow]) -> StuckReason | None:
    if facts.state not in ("PreparingRebalance", "CompletingRebalance", "Reconciling", "Assigning"):
        return None
    owing = [each for each in facts.members if each.state in (OWES_JOIN, OWES_SYNC)]
    if not owing:
        return StuckReason("It rebalances, and waits a moment for more members.")
    names = ", ".join(f"{each.client_id} at {each.host}" for each in owing[:5])
    what = "rejoin" if owing[0].state == OWES_JOIN else "sync"
    return StuckReason(f"It rebalances: nobody gets records until {names} {what}{'s' if len(owing) == 1 else ''}.")


def _gone(facts: ReadingFacts, behind: Sequence[PositionRow]) -> StuckReason | None:
    if facts.members or not behind or facts.state not in ("Empty", "Dead"):
        return None
    lag = sum(each.lag or 0 for each in behind)
    if any(each.fetched is not None for each in behind):
        return None
    return StuckReason(without_readers(lag))


def without_readers(lag: int) -> str:
    """The sentence on a group without members that has records left."""
    return f"It has no member: nobody reads the {counted(lag, 'record that is', 'records that are')} left."


def _lost_offset(facts: ReadingFacts, _behind: Sequence[PositionRow]) -> StuckReason | None:
    for each in facts.positions:
        start = each.start_offset
        if start is not None and each.committed is not None and each.committed < start:
            line = (
                f"The records at its position {each.committed} of {each.topic}-{each.partition} are deleted; the log "
                f"begins at {start}. A member goes on where auto.offset.reset says, or fails."
            )
            return StuckReason(line, _record(each, start))
    return None


def _held_back(facts: ReadingFacts, behind: Sequence[PositionRow]) -> StuckReason | None:
    for each in behind:
        found = facts.open_transactions.get((each.topic, each.partition))
        position = max(-1 if each.committed is None else each.committed, -1 if each.fetched is None else each.fetched)
        if found is not None and each.stable_offset is not None and position >= each.stable_offset:
            name = f"of {found.transactional_id}" if found.transactional_id else f"of producer {found.producer_id}"
            line = (
                f"An open transaction {name}, since offset {found.first_offset} of {each.topic}-{each.partition}, "
                "holds back every reader of committed records."
            )
            return StuckReason(line, _record(each, found.first_offset))
    return None


def _poisoned(facts: ReadingFacts, behind: Sequence[PositionRow]) -> StuckReason | None:
    if facts.lost_members < FAILS:
        return None
    lost = f"{facts.lost_members} members were lost"
    for each in behind:
        if each.committed is not None:
            line = (
                f"{lost} while its position stayed at {each.committed} of {_spot(each)}: its consumers may fail on "
                "that record, or take longer for it than max.poll.interval.ms."
            )
            return StuckReason(line, _record(each, each.committed))
    if facts.is_partial or any(each.committed is not None for each in facts.positions):
        return None
    return StuckReason(f"{lost}, and it has committed nothing: its consumers may fail on their first records.")


def _without_member(facts: ReadingFacts, behind: Sequence[PositionRow]) -> StuckReason | None:
    if any(task.startswith(TASK) for member in facts.members for task in member.assigned):
        return None  # tasks of Kafka Streams do not name their partitions
    for each in behind:
        if facts.members and each.member is None:
            return StuckReason(f"No member has {_spot(each)}, and {_waiting(each)}.")
    return None


def _not_fetched(facts: ReadingFacts, _behind: Sequence[PositionRow]) -> StuckReason | None:
    for each in facts.positions:
        if each.member is None or not _waits(each) or (each.fetched is None and not _is_seen(facts, each)):
            continue
        if _unfetched_ms(facts, each) > LONG_MS:
            line = (
                f"{each.member} has {_spot(each)} and does not fetch it: it is paused, or still works on what it has."
            )
            return StuckReason(f"{line} {_waiting(each).capitalize()}.")
    return None


def _is_seen(facts: ReadingFacts, each: PositionRow) -> bool:
    """Whether this node sees every fetch of the partition."""
    return not facts.reads_elsewhere and (each.topic, each.partition) not in facts.led_elsewhere


def _waits(each: PositionRow) -> bool:
    """Whether there is something to read, as far as this node knows."""
    return each.lag != 0 and each.end_offset is not None


def _waiting(each: PositionRow) -> str:
    if each.lag is not None:
        return counted(each.lag, "record waits", "records wait")
    if each.fetched is not None:
        return f"it was sent the records before {each.fetched}, and the log ends at {each.end_offset}"
    end = each.end_offset or 0
    held = f"ends at {end}" if each.start_offset is None else f"has {counted(end - each.start_offset, 'offset')}"
    return f"its log {held}, and auto.offset.reset says where it begins"


def _unfetched_ms(facts: ReadingFacts, each: PositionRow) -> float:
    """How long the member has not fetched, and its position not moved, for sure."""
    still_ms = _still_ms(facts, each)
    if each.fetched is None:
        assigned_ms = facts.now_ms - (facts.assigned_ms or 0)
        return assigned_ms if each.committed is None else min(assigned_ms, still_ms)
    unfetched_ms = (each.fetched_s or 0.0) * 1000
    works_on = each.committed is not None and each.committed < each.fetched
    return min(unfetched_ms, still_ms) if works_on else unfetched_ms


def _silent(facts: ReadingFacts, behind: Sequence[PositionRow]) -> StuckReason | None:
    if facts.pace is not None and facts.pace.read_per_s > 0 and facts.pace.falls_behind:
        return None  # it gets on elsewhere, too slowly: its rates say more
    for each in behind:
        if each.fetched is None or each.committed is None or each.fetched <= each.committed:
            continue
        still_ms = _still_ms(facts, each)
        if still_ms > LONG_MS:
            place = _record(each, each.committed)
            reader = f"{each.member or 'A member'} reads {_spot(each)}"
            if _since_commit_ms(facts, each) > LONG_MS:
                return StuckReason(f"{reader}, and has not committed for {still_ms / 1000:.0f} s.", place)
            again = f"commits {each.committed} again and again, for {still_ms / 1000:.0f} s or longer"
            return StuckReason(f"{reader}, and {again}.", place)
    return None


def _still_ms(facts: ReadingFacts, each: PositionRow) -> float:
    """How long a position has not moved, for sure. A commit may repeat the offset of the one before."""
    watched_ms = facts.still_s.get((each.topic, each.partition), 0.0) * 1000
    return max(watched_ms, _since_commit_ms(facts, each))


def _since_commit_ms(facts: ReadingFacts, each: PositionRow) -> float:
    return 0.0 if each.commit_ms is None else facts.now_ms - each.commit_ms


def _spot(each: PositionRow) -> str:
    return f"{each.topic}-{each.partition}"


def _record(each: PositionRow, offset: int) -> RecordPlace:
    return RecordPlace(each.topic, each.partition, offset)
