"""Plays one sequence on both brokers in step, and stops at the first answer that differs.

Requests that may wait for others (joins, syncs, long fetches) are left in flight once neither broker answers them; when
one of them does, the other is given time, and if it stays silent that is a difference. After what changes topics or
configs, both brokers are waited for until they act on it.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from differential.comparison import Difference, differences
from differential.known import KNOWN, Known, known_for
from differential.normalisation import BACKDATED_MS
from differential.side import ANSWER_WITHIN_S, PLAINLY, SILENT, WAITING, Reach, Side, in_time
from differential.steps import Call, Hangup, Pause, Step, resolved, text_of
from kpywire import api, error_codes
from kpywire.messages.describe_transactions import DescribeTransactionsRequest
from support.raw_client import RawClient, api_key_of
from support.raw_requests import (
    SET,
    TOPIC,
    configs_set,
    creation,
    deletion,
    incremental_alteration,
    list_offsets,
    metadata,
    topic_named,
)

QUIET_S = 0.03
OTHER_WITHIN_S = 4.0
TAKES_EFFECT_S = 3.0
MARKED = "differential-marker"


class Ports(NamedTuple):
    kafka: int
    kpybroker: int


class Played(NamedTuple):
    """The result of a sequence."""

    steps: int
    """How many were played before it ended."""
    at: int
    """The step whose answers differ; -1 if none do."""
    found: tuple[Difference, ...]
    known: tuple[str, ...]
    """Names of the known differences that were met."""

    def signature(self, steps: Sequence[Step]) -> tuple[Any, ...]:
        """The API and the fields: two findings with the same signature are the same one."""
        step = steps[self.at]
        assert isinstance(step, Call)
        return (type(step.request).__name__, *sorted({each.path for each in self.found}))

    def report(self, steps: Sequence[Step]) -> str:
        lines = [f"  {index}. {text_of(step)}" for index, step in enumerate(steps[: self.steps])]
        lines.append(f"differs in step {self.at}:")
        return "\n".join(lines + [f"  {each}" for each in self.found])


class Play:
    """One sequence under way. ``prefix`` must be new to both brokers."""

    def __init__(self, ports: Ports, prefix: str, reach: Reach = PLAINLY) -> None:
        began_ms = time.time_ns() // 1_000_000 - BACKDATED_MS
        self.kafka = Side(ports.kafka, prefix, began_ms, reach)
        self.kpybroker = Side(ports.kpybroker, prefix, began_ms, reach)
        self.sides = (self.kafka, self.kpybroker)
        self.prefix = prefix
        self.known: list[str] = []
        self._compared: set[int] = set()

    def run(self, steps: Sequence[Step]) -> Played:
        try:
            for index, step in enumerate(steps):
                self._take(index, step)
                ended = self._judge(steps, index + 1)
                if ended is not None:
                    return ended
            for side in self.sides:
                side.close()
            return self._judge(steps, len(steps)) or Played(len(steps), -1, (), tuple(self.known))
        finally:
            for side in self.sides:
                side.close()
                clean_up(side)
                side.close()

    def _take(self, index: int, step: Step) -> None:
        if isinstance(step, Pause):
            time.sleep(step.wait_ms / 1000)
            self._settle()
            return
        if isinstance(step, Hangup):
            for side in self.sides:
                side.give_up(step.actor, WAITING)
            time.sleep(QUIET_S)
            return
        for side in self.sides:
            side.begin(index, step)
        if not may_wait(step):
            self._answered(step.actor, index)
        self._settle()
        for side in self.sides:
            if index in side.answers:
                take_effect(side, step, side.answers[index])

    def _answered(self, actor: str, index: int) -> None:
        """Wait for an answer that has to come; an earlier request of the actor may wait longer."""
        for side in self.sides:
            waiting = side.in_flight.get(actor)
            if waiting is not None and waiting.step == index and not side.poll(actor, ANSWER_WITHIN_S):
                side.give_up(actor, SILENT)

    def _settle(self) -> None:
        """Until neither broker answers anything more that waits."""
        while self._waiting():
            progress = False
            for actor in self._waiting():
                done = [side.poll(actor, QUIET_S) for side in self.sides]
                if any(done) and not all(done):
                    [side.poll(actor, OTHER_WITHIN_S) for side in self.sides]
                    for side in self.sides:
                        side.give_up(actor, WAITING) if actor in side.in_flight else None
                progress = progress or any(done)
            if not progress:
                return

    def _waiting(self) -> list[str]:
        return sorted({*self.kafka.in_flight, *self.kpybroker.in_flight})

    def _judge(self, steps: Sequence[Step], played: int) -> Played | None:
        """How the sequence ends, if it does: at a difference, or at a known one that makes the rest incomparable."""
        for index in sorted(self.kafka.outcomes.keys() & self.kpybroker.outcomes.keys() - self._compared):
            self._compared.add(index)
            step = steps[index]
            assert isinstance(step, Call)
            unknown = []
            kafka = self.kafka.outcome(index)
            for each in differences(kafka, self.kpybroker.outcome(index)):
                known = known_for(step, each, kafka)
                if known is None:
                    unknown.append(each)
                    continue
                self.known.append(known.name)
                if known.ends:
                    return Played(played, -1, (), tuple(self.known))
            if unknown:
                return Played(played, index, tuple(unknown), tuple(self.known))
        return None


def may_wait(call: Call) -> bool:
    """Whether an answer may depend on what others do."""
    key = api_key_of(call.request)
    return key in (api.JOIN_GROUP, api.SYNC_GROUP) or (key == api.FETCH and call.request.max_wait_ms > 0)


# What a change needs before it is seen by all requests


def take_effect(side: Side, call: Call, answer: Any) -> None:
    """Wait until the broker acts on what its controller has answered."""
    match api_key_of(call.request):
        case api.CREATE_TOPICS if not call.request.validate_only:
            _led(side, {each.name for each in answer.topics if not each.error_code})
        case api.METADATA if call.version < 4 or call.request.allow_auto_topic_creation:
            created = (error_codes.LEADER_NOT_AVAILABLE, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
            _led(side, {each.name for each in answer.topics if each.error_code in created and each.name})
        case api.CREATE_PARTITIONS if not call.request.validate_only:
            _led(side, {each.name for each in answer.results if not each.error_code})
        case api.DELETE_TOPICS:
            names = [each.name for each in answer.responses if not each.error_code]
            in_time(lambda: all(_error(side, name, 0) == error_codes.UNKNOWN_TOPIC_OR_PARTITION for name in names))
            if names:
                time.sleep(QUIET_S)  # groups forget what was committed for them
        case api.END_TXN | api.INIT_PRODUCER_ID if call.request.transactional_id:
            in_time(lambda: not _is_ending(side, call.request.transactional_id))
        case api.ALTER_CONFIGS | api.INCREMENTAL_ALTER_CONFIGS if not call.request.validate_only:
            if _is_changed(answer.responses):
                _configs_seen(side)
        case api.CREATE_ACLS | api.ALTER_USER_SCRAM_CREDENTIALS if _is_changed(answer.results):
            _configs_seen(side)
        case api.DELETE_ACLS if _is_changed(answer.filter_results):
            _configs_seen(side)


def _is_changed(results: Sequence[Any]) -> bool:
    return not all(each.error_code for each in results)


def _error(side: Side, topic: str, partition: int) -> int:
    (answer,) = side.call(list_offsets(topic, -1, partition=partition), 6).topics
    return int(answer.partitions[0].error_code)


def _is_ending(side: Side, transactional_id: str) -> bool:
    """Whether markers of a transaction that has been decided are still being written."""
    prefixed = resolved(transactional_id, {}, side.prefix, 0)
    (found,) = side.call(DescribeTransactionsRequest(transactional_ids=[prefixed]), 0).transaction_states
    return str(found.transaction_state).startswith("Prepare")


def _led(side: Side, topics: set[str]) -> None:
    """Wait until every partition has its leader, and learn the topics' ids."""
    for name in topics:
        side_request = metadata(name)
        in_time(lambda request=side_request: not side.call(request, 12).topics[0].error_code, TAKES_EFFECT_S)
        (found,) = side.call(side_request, 12).topics
        if found.error_code:
            continue
        side.learned.topic(name, found.topic_id)
        for partition in found.partitions:
            in_time(lambda name=name, index=partition.partition_index: not _error(side, name, index))


def _configs_seen(side: Side) -> None:
    """Change a config of a topic that is there for this, and wait until it is seen: so is all that came before."""
    value = str(10_000 + time.time_ns() % 1_000_000_000)
    side.call(incremental_alteration((TOPIC, MARKED, [("retention.ms", SET, value)])), 1)
    in_time(lambda: configs_set(cast(RawClient, side), TOPIC, MARKED).get("retention.ms") == value)
    time.sleep(QUIET_S / 2)


def prepare(ports: Ports) -> None:
    """Create on both brokers what every sequence needs."""
    for port in ports:
        side = Side(port, "", 0, PLAINLY)
        side.call(creation(topic_named(MARKED)), 7)
        _led(side, {MARKED})
        side.close()


def clean_up(side: Side) -> None:
    """Take away the topics of the sequence, and of any other name."""
    found = side.call(metadata_of_all(), 12).topics
    names = [each.name for each in found if each.name != MARKED and not each.name.startswith("__")]
    if names:
        side.call(deletion(*names), 6)


def metadata_of_all() -> Any:
    request = metadata()
    request.topics = None
    return request


__all__ = ["KNOWN", "Known", "Play", "Played", "Ports", "prepare"]
