"""Why a streams group does not get on, in a sentence, as far as that differs from other groups. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.groups import MemberRow
from kpybroker.machines.console.stuck import GroupVerdict, not_stuck, stuck_by

LONG_S: Final = 15.0
"""A silence of this length is long: three heartbeats."""


@dataclass(frozen=True, slots=True)
class Handover:
    """A task that is to run at one member, and is not there yet."""

    task: str
    to: str
    giver: str | None
    """The member that has to give it up first; None if nobody has it."""


@dataclass(frozen=True, slots=True)
class StreamsFacts:
    """The facts about a streams group."""

    members: Sequence[MemberRow]
    problem: str
    """The reason why the topics do not fit its topology; empty if they do."""
    shutdown_by: str
    """The member that asked for the end of the application; empty if none did."""
    is_delayed: bool
    """Whether the first assignment waits for more members."""
    handovers: Sequence[Handover]
    unowned: Sequence[str]
    """The tasks that the last assignment gave to nobody."""
    warm_ups: Sequence[tuple[str, str]]
    """Tasks and the members that warm them up."""


def verdict_on_streams(facts: StreamsFacts) -> GroupVerdict | None:
    """Whether the group is stuck and why or why not, where that follows from its tasks; None for all else."""
    if not facts.members:
        return None
    if facts.shutdown_by:
        return stuck_by(f"{facts.shutdown_by} asked for the end of the application, and its members stop.")
    if facts.problem:
        return stuck_by(f"It has no tasks: {facts.problem}")
    for each in facts.members:
        if each.silent_s is not None and each.silent_s >= LONG_S:
            line = (
                f"{each.client_id} at {each.host} has sent no heartbeat for {each.silent_s:.0f} s, and keeps its tasks"
            )
            return stuck_by(f"{line} until its session ends.")
    if facts.is_delayed:
        return stuck_by(
            "Its first assignment waits a moment for more members (group.streams.initial.rebalance.delay.ms)."
        )
    if facts.handovers:
        return stuck_by(_handover(facts.handovers[0], len(facts.handovers)))
    if facts.unowned:
        return stuck_by(f"{_begin(facts.unowned[0])} has no owner: the last assignment gave it to nobody.")
    if facts.warm_ups:
        task, member = facts.warm_ups[0]
        return not_stuck(f"It reads, and {member} warms up {task}, which moves there afterwards.")
    return None


def _handover(found: Handover, count: int) -> str:
    more = f" ({count} tasks move)" if count > 1 else ""
    if found.giver is None:
        return f"{_begin(found.task)} has no owner until {found.to} takes it with its next heartbeat{more}."
    return f"{_begin(found.task)} waits until {found.giver} has given it up to {found.to}{more}."


def _begin(text: str) -> str:
    return text[0].upper() + text[1:]
