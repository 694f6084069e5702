"""Questions to the share coordinators, on this node or on others (Kafka: ``DefaultStatePersister``).

Each question is about one share partition. It is asked again if its coordinator is moving, loading or away.

Invariant: ``done`` of each question is called once, unless the node stops.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.metadata.topic_name import SHARE_GROUP_STATE_TOPIC
from kpybroker.machines.share_coordinator.events import StateRequest
from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.requests import refused
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error
from kpybroker.requests.serving.internal_topics import auto_create
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

log = logging.getLogger("kpybroker.share")

FEW_PARTS: Final = 64
"""The share partitions that are asked about at once."""
ATTEMPTS: Final = 6
FIRST_PAUSE_MS: Final = 100
AGAIN: Final = frozenset(
    {
        error_codes.NOT_COORDINATOR,
        error_codes.COORDINATOR_NOT_AVAILABLE,
        error_codes.COORDINATOR_LOAD_IN_PROGRESS,
        error_codes.NETWORK_EXCEPTION,
    }
)
"""The errors after which a question is asked again."""

Done = Callable[[Any], object]
"""A callback for the ``PartitionResult`` that matches the question."""


class _Message(NamedTuple):
    request: Any
    topic: Any


_MESSAGES: Final[dict[type, _Message]] = {
    delete_share_group_state.PartitionData: _Message(
        delete_share_group_state.DeleteShareGroupStateRequest, delete_share_group_state.DeleteStateData
    ),
    initialize_share_group_state.PartitionData: _Message(
        initialize_share_group_state.InitializeShareGroupStateRequest, initialize_share_group_state.InitializeStateData
    ),
    read_share_group_state.PartitionData: _Message(
        read_share_group_state.ReadShareGroupStateRequest, read_share_group_state.ReadStateData
    ),
    read_share_group_state_summary.PartitionData: _Message(
        read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
        read_share_group_state_summary.ReadStateSummaryData,
    ),
    write_share_group_state.PartitionData: _Message(
        write_share_group_state.WriteShareGroupStateRequest, write_share_group_state.WriteStateData
    ),
}
"""The request and its topic for each kind of part."""


def ask_all(
    broker: Context,
    group_id: str,
    parts: Mapping[bytes, Sequence[Any]],
    done: Callable[[dict[bytes, list[Any]]], object],
) -> None:
    """Ask about share partitions of a group, by topic id. ``done`` gets their results, by topic id."""
    missing = sum(map(len, parts.values()))
    results: dict[bytes, list[Any]] = {topic_id: [] for topic_id in parts}
    if not missing:
        done(results)
        return

    def answered(topic_id: bytes, result: Any) -> None:
        nonlocal missing
        results[topic_id].append(result)
        missing -= 1
        if not missing:
            done(results)

    def asking() -> Generator[None, None, None]:
        for topic_id, each in parts.items():
            for part in each:
                ask(broker, SharePartitionKey(group_id, topic_id, part.partition), part, partial(answered, topic_id))
                yield

    if missing > FEW_PARTS:
        broker.scheduler.in_pieces(asking())
    else:
        deque(asking(), maxlen=0)


def ask(broker: Context, key: SharePartitionKey, part: Any, done: Done) -> None:
    """Ask the coordinator of a share partition. ``part`` is the ``PartitionData`` of one of the five requests."""
    _Question(broker, key, part, done).send()


class _Question:
    """One question, until it is answered."""

    __slots__ = ("_attempts", "_broker", "_done", "_key", "_part")

    def __init__(self, broker: Context, key: SharePartitionKey, part: Any, done: Done) -> None:
        self._broker = broker
        self._key = key
        self._part = part
        self._done = done
        self._attempts = 0

    def send(self) -> None:
        broker, self._attempts = self._broker, self._attempts + 1
        topic = broker.image.topics.get(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            if self._attempts >= ATTEMPTS:
                self._answered(refused(self._part, error_codes.COORDINATOR_NOT_AVAILABLE, None))
            elif broker.expected_topics.expect(SHARE_GROUP_STATE_TOPIC, self.send):
                auto_create(broker, [SHARE_GROUP_STATE_TOPIC])
            return
        leader = topic.partitions[partition_for(str(self._key), len(topic.partitions))].leader
        if leader == broker.node_id:
            self._ask_here()
        elif leader < 0:
            self._answered(refused(self._part, error_codes.COORDINATOR_NOT_AVAILABLE, None))
        else:
            self._ask_elsewhere(leader)

    def _ask_here(self) -> None:
        broker, key, part = self._broker, self._key, self._part
        timestamp_ms = broker.scheduler.now_ms()
        answer = broker.share_states.submit(
            str(key),
            lambda ticket: StateRequest(ticket, key, part, timestamp_ms),
            lambda code: refused(part, coordinator_error(code), error_codes.message(code)),
            timeout_ms=int(broker.config["share.coordinator.write.timeout.ms"]),
        )
        if isinstance(answer, Pending):
            answer.when_resolved(self._answered)
        else:
            self._answered(answer)

    def _ask_elsewhere(self, node_id: int) -> None:
        message = _MESSAGES[type(self._part)]
        topic = message.topic(topic_id=self._key.topic_id, partitions=[self._part])
        request = message.request(group_id=self._key.group_id, topics=[topic])
        self._broker.nodes.send(node_id, request, self._responded)

    def _responded(self, response: Any) -> None:
        results = [] if isinstance(response, NoResponse) else [each for r in response.results for each in r.partitions]
        if not results:
            reason = response.reason if isinstance(response, NoResponse) else "the answer is empty"
            results = [refused(self._part, error_codes.NETWORK_EXCEPTION, reason)]
        self._answered(results[0])

    def _answered(self, result: Any) -> None:
        if result.error_code in AGAIN and self._attempts < ATTEMPTS:
            pause_ms = FIRST_PAUSE_MS << (self._attempts - 1)
            self._broker.scheduler.call_later(pause_ms, self.send)
            return
        try:
            self._done(result)
        except Exception:
            log.exception("The stored state of share partition %s could not be handled because of a defect", self._key)
