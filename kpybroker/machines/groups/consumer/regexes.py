"""Regular expressions over topic names: when they are resolved, and what follows from it (KIP-848).

(Kafka: ``maybeUpdateRegularExpressions``, ``TopicRegexResolver``.) A heartbeat answers with what is resolved already.
All expressions of a group are resolved together, in a decision of its own when the heartbeat's records are committed.
"""

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import NamedTuple

from kpybroker.machines.coordination.pattern import whole_match
from kpybroker.machines.groups.consumer.consumer_group import CONSUMER, ConsumerGroup, ResolvedRegex
from kpybroker.machines.groups.consumer.member import ConsumerMember
from kpybroker.machines.groups.consumer.records import epoch_record, regex_record, regex_tombstone
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.java_order import in_hash_order, in_timeline_order, string_hash
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.re2_patterns import InvalidPattern
from kpywire import error_codes

LEAST_INTERVAL_MS = 10_000
"""A group is not resolved again within this time."""

Visible = Callable[[Collection[str]], Collection[str]]
"""Takes names of topics; returns those that the sender of a heartbeat may describe."""


class RegexChange(Enum):
    """The change of a heartbeat in the regular expression of its member."""

    NONE = 0
    CHANGED = 1
    RESOLVED = 2
    """The new one is resolved already, or there is none."""


class ResolveRegexes(NamedTuple):
    """An input of the coordinator: resolve these regular expressions of a group now."""

    group_id: str
    regexes: Sequence[str]
    visible: Visible | None
    timestamp_ms: int


class Resolutions(dict[str, int]):
    """The groups whose regular expressions are being resolved, and since when on the clock of ``now_ms``."""


def update_regex(
    shard: GroupShard,
    group: ConsumerGroup,
    member: ConsumerMember,
    updated: ConsumerMember,
    records: list[GroupRecord],
    visible: Visible | None,
    decision: GroupDecision,
) -> RegexChange:
    """Note that a member changes its regular expression, and begin a resolution where one is due."""
    old, new = member.topic_regex, updated.topic_regex
    change = RegexChange.NONE
    is_new = False
    if old != new:
        change = RegexChange.CHANGED
        if old and group.regex_members.get(old, 0) == 1:
            records.append(regex_tombstone(group.group_id, old))
        if not new:
            change = RegexChange.RESOLVED if old else change
        elif not group.regex_members.get(new):
            check_regex(new)
            is_new = True
        elif new in group.regexes:
            change = RegexChange.RESOLVED
    if (is_new or group.regex_members) and _may_begin(shard, group, decision):
        wanted = dict(group.regex_members)
        for regex, by in ((old, -1), (new, 1)):
            if regex:
                wanted[regex] = wanted.get(regex, 0) + by
        regexes = [regex for regex, count in wanted.items() if count > 0]
        if regexes and (is_new or _is_due(group, len(regexes), decision)):
            shard.notes(Resolutions)[group.group_id] = decision.now_ms
            regexes = in_hash_order(regexes, string_hash)
            decision.then = ResolveRegexes(group.group_id, regexes, visible, decision.timestamp_ms)
    return change


def resolve_regexes(shard: GroupShard, event: ResolveRegexes, decision: GroupDecision) -> None:
    """Write the topics that the regular expressions match. If they are others, the group goes on at the next epoch."""
    shard.notes(Resolutions).pop(event.group_id, None)
    group = shard.find(event.group_id, ConsumerGroup)
    if group is None:
        return
    topics = decision.topics
    matched = {regex: _matching(regex, topics.by_name) for regex in event.regexes if regex in group.regex_members}
    if event.visible is not None:
        visible = frozenset(event.visible(frozenset().union(*matched.values())))
        matched = {regex: names & visible for regex, names in matched.items()}
    subscriptions = group.subscriptions_without(())
    is_changed = False
    for regex, names in matched.items():
        resolved = group.regexes.get(regex)
        if names != (frozenset() if resolved is None else resolved.topics):
            is_changed = True
            subscriptions.resolve(regex, names)
        decision.records.append(regex_record(group.group_id, regex, names, topics.version, decision.timestamp_ms))
    metadata_hash = topics.group_hash(subscriptions.topics)
    if is_changed or metadata_hash != group.metadata_hash:
        decision.records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        decision.counts.count_rebalance(CONSUMER)
        group.checked_version = topics.version


def check_regex(regex: str) -> None:
    """Raise Refused if this is not a regular expression."""
    try:
        whole_match(regex)
    except InvalidPattern as invalid:
        text = f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {_in_words_of_java(str(invalid))}."
        raise RequestRefused(error_codes.INVALID_REGULAR_EXPRESSION, text) from None


def _may_begin(shard: GroupShard, group: ConsumerGroup, decision: GroupDecision) -> bool:
    """Whether no resolution is under way, and the last one is some time ago. One whose heartbeat could not be written
    never ends, so it is forgotten after that time."""
    since_ms = shard.notes(Resolutions).get(group.group_id)
    if since_ms is not None and decision.now_ms <= since_ms + LEAST_INTERVAL_MS:
        return False
    last = _last_resolved(group)
    return last is None or decision.ms_since(last.timestamp_ms) > LEAST_INTERVAL_MS


def _last_resolved(group: ConsumerGroup) -> ResolvedRegex | None:
    """One of the resolved expressions, which stands for all of them, as in Kafka."""
    first = in_timeline_order(group.regexes, len(group.regexes))[:1]
    return group.regexes[first[0]] if first else None


def _is_due(group: ConsumerGroup, wanted: int, decision: GroupDecision) -> bool:
    """Whether one is not resolved, a topic was created since, or the last resolution is too long ago."""
    last = _last_resolved(group)
    if last is None or wanted != len(group.regexes) or last.version < decision.topics.created_version:
        return True
    return decision.ms_since(last.timestamp_ms) > decision.settings.consumer_regex_refresh_interval_ms


def _matching(regex: str, names: Collection[str]) -> frozenset[str]:
    try:
        matches = whole_match(regex)
    except InvalidPattern:
        return frozenset()
    return frozenset(filter(matches, names))


_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


def _in_words_of_java(text: str) -> str:
    """The description of RE2J, which Kafka uses, for the message of RE2."""
    words = text.partition(": ")[0]
    return _WORDS.get(words, words)
