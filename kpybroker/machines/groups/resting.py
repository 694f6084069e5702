"""Members at rest: the answer to a heartbeat that changed nothing is given again, for as long as a decision would give
it. Pure.

A member at rest sends the same heartbeat every few seconds. Its message is the same object then
(`kpybroker.requests.dispatching.repeated`), so it is from the same sender. Such a heartbeat begins the session of the
member again, and that is all.

Invariant: a kept answer follows from the message, the records of the group, the topics and the settings alone. It is
dropped with the next record of the group, and not given after a change of topics or settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kpybroker.machines.groups.beats import Beat, Rest, at_rest_ms

if TYPE_CHECKING:
    from kpybroker.machines.groups.decision import GroupDecision
    from kpybroker.machines.groups.settings import GroupSettings
    from kpybroker.machines.groups.shard import GroupShard


def keep_answer(shard: GroupShard, message: Any, response: Any, beat: Beat, decision: GroupDecision) -> None:
    """Keep the answer to a heartbeat, if nothing follows from it. Groups with settings of their own are left out: they
    get new ones with each decision."""
    settings = decision.settings
    if decision.records or decision.then is not None or settings.of_group(message.group_id) is not settings:
        return
    rests = shard.resting.setdefault(message.group_id, {})
    rests[message.member_id] = Rest(message, response, beat, settings, decision.topics.version)


def answer_again(
    shard: GroupShard, message: Any, settings: GroupSettings, topics_version: int, now_ms: int
) -> Any | None:
    """The answer to a heartbeat, if it is kept; the session of the member begins again. None if it is to be decided."""
    rests = shard.resting.get(message.group_id)
    rest = None if rests is None else rests.get(message.member_id)
    if rest is None or rest.message is not message or rest.topics_version != topics_version:
        return None
    if rest.settings is not settings or settings.of_group(message.group_id) is not settings:
        return None
    beat = rest.beat
    timer = shard.member_timers.get(beat.session)
    interval_ms = at_rest_ms(beat.usual_ms, beat.unsettled_ms, shard.members_of_node())
    if timer is None or rest.response.heartbeat_interval_ms != interval_ms:
        return None
    shard.timers.set(timer, now_ms + beat.session_timeout_ms)
    return rest.response
