"""StreamsGroupHeartbeat (88), versions 0-1: be a member of a group of the streams protocol (KIP-1071).

- Answered UNSUPPORTED_VERSION while ``streams.version`` is below 1.
- A topology with invalid or internal topics is STREAMS_INVALID_TOPOLOGY; its topics need DESCRIBE.
- What Kafka 4.4 does not support, or what cannot be right, is INVALID_REQUEST with Kafka's words.
- v1: the recovery lag that is acceptable, and the status of members without the client tags that standby tasks are
  spread over. One member is asked for the description of the topology, if none is kept (KIP-1331).
- Internal topics that are missing are created in the name of the client, which needs CREATE. The answer does not wait
  for them; refusals are in the status of later answers.
"""

from collections.abc import Collection, Generator, Iterator
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.groups.epochs.member import AWAY_EPOCH, JOINING_EPOCH
from kpybroker.machines.groups.streams.configured import InternalTopic
from kpybroker.machines.groups.streams.heartbeat import HeartbeatAnswer, heartbeat_error
from kpybroker.machines.groups.streams.partition_counts import MISSING_INTERNAL_TOPICS
from kpybroker.machines.metadata.topic_name import INTERNAL, reason_invalid
from kpybroker.requests.serving.consumer_protocol import serves_streams_groups
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import commit_timeout_ms, coordinator_error, group_request
from kpybroker.requests.serving.internal_topics import create
from kpybroker.requests.serving.permissions import denied_among, denied_topics, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, at_once, distinct
from kpywire import error_codes
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from kpywire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

BROKERS_DEFAULT = -1
REFUSALS_SHOWN = 3


def handle(broker: Context, request: StreamsGroupHeartbeatRequest, call: Call) -> Any:
    """Pass the request to the group's coordinator."""
    return at_once(handle_in_steps(broker, request, call))


def handle_in_steps(broker: Context, request: StreamsGroupHeartbeatRequest, call: Call) -> Generator[None, None, Any]:
    """Like `handle`: the names in a large topology are examined in steps."""
    if not serves_streams_groups(broker):
        return heartbeat_error(error_codes.UNSUPPORTED_VERSION)
    again = broker.groups.answer_again(request.group_id, request)
    if again is not None:
        return again
    if request.topology is not None:
        names = yield from distinct(_topics(request.topology))
        text = yield from _why_names_are_wrong(names)
        if text is not None:
            return heartbeat_error(error_codes.STREAMS_INVALID_TOPOLOGY, text)
        if (yield from denied_among(broker, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names)):
            return heartbeat_error(error_codes.TOPIC_AUTHORIZATION_FAILED)
        yield  # the coordinator decides in one step, and a topology may have been long to decode
    return _join(broker, request, call)


def _join(broker: Context, request: StreamsGroupHeartbeatRequest, call: Call) -> Any:
    text = _what_is_not_supported(request) or _what_is_wrong(request)
    if text is not None:
        return heartbeat_error(error_codes.INVALID_REQUEST, text)
    if request.member_epoch == JOINING_EPOCH and request.topology is not None:
        text = _why_changelogs_are_wrong(request.topology)
        if text is not None:
            return heartbeat_error(error_codes.STREAMS_INVALID_TOPOLOGY, text)

    def answer(given: HeartbeatAnswer) -> StreamsGroupHeartbeatResponse:
        if given.missing:
            _create_missing(broker, call, given)
        return given.response

    return broker.groups.submit(
        request.group_id,
        group_request(broker, request, call),
        lambda code: heartbeat_error(coordinator_error(code)),
        answer=answer,
        timeout_ms=commit_timeout_ms(broker),
    )


# Kafka's words for requests that are wrong, in Kafka's order


def _topics(topology: Topology) -> Iterator[str]:
    for subtopology in topology.subtopologies:
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield topic.name


def _why_names_are_wrong(names: Collection[str]) -> Generator[None, None, str | None]:
    if any(name in names for name in INTERNAL):
        internal = [name for name in names if name in INTERNAL]
        return f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    invalid = []
    for nth, name in enumerate(names, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        if reason_invalid(name) is not None:
            invalid.append(name)
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None


def _what_is_not_supported(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return "Regular expressions for source topics are not supported yet."
    return None


def _what_is_wrong(request: StreamsGroupHeartbeatRequest) -> str | None:
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and all(character <= " " for character in value):
            return f"{name} can't be empty."
    epoch = request.member_epoch
    tasks = (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    )
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        for name, listed in tasks:
            if listed is None or listed:
                return f"{name} must be empty when (re-)joining."
        return "Topology must be non-null when (re-)joining." if request.topology is None else None
    if epoch == AWAY_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    if epoch < AWAY_EPOCH:
        return f"MemberEpoch is {epoch}, but must be greater than or equal to -2."
    missing = [listed is None for _, listed in tasks]
    if any(missing) and not all(missing):
        return "If one task-type is non-null, all must be non-null."
    return None if request.topology is None else "Topology can only be provided when (re-)joining."


def _why_changelogs_are_wrong(topology: Topology) -> str | None:
    for subtopology in topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions:
                return (
                    f"Changelog topic {topic.name} must have an undefined partition count, "
                    f"but it is set to {topic.partitions}."
                )
    return None


# Internal topics


def _create_missing(broker: Context, call: Call, given: HeartbeatAnswer) -> None:
    """Have missing topics created, or say in the status why they are not."""
    names = list(given.missing)
    if not may_on_cluster(broker, call, AclOperation.CREATE, logs_denial=False):
        denied = denied_topics(broker, call, AclOperation.CREATE, names)
        if denied:
            listed = ", ".join(name for name in names if name in denied)
            _add_to_status(given.response, f"Unauthorized to CREATE on topics {listed}.")
            return
    streams_topics, scheduler = broker.streams_topics, broker.scheduler
    refusals = [
        f"{name} ({text})"
        for name in names
        if (text := streams_topics.refusal(name, scheduler.monotonic_ms())) is not None
    ]
    wanted = streams_topics.begin(names, scheduler.monotonic_ms(), int(broker.config["request.timeout.ms"]))
    if wanted:
        kept_ms = 2 * given.response.heartbeat_interval_ms

        def note(response: Any) -> None:
            streams_topics.end(wanted, response, scheduler.monotonic_ms(), kept_ms)

        create(broker, [_creatable(given.missing[name]) for name in wanted], note, call)
    if refusals:
        shown = ", ".join(refusals[:REFUSALS_SHOWN])
        if len(refusals) > REFUSALS_SHOWN:
            shown += f" and {len(refusals) - REFUSALS_SHOWN} more"
        _add_to_status(given.response, f"Creation failed: {shown}.")


def _add_to_status(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    for status in response.status or ():
        if status.status_code == MISSING_INTERNAL_TOPICS:
            status.status_detail += f"; {text}"


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or BROKERS_DEFAULT,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )
