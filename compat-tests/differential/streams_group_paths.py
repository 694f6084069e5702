"""Paths of the APIs of streams groups (KIP-1071): see `error_paths`."""

from collections.abc import Iterator, Mapping
from typing import Any

from differential.group_paths import join, stable
from differential.steps import Pause, Step, learned
from differential.world import call
from kpywire import api
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kpywire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequestEndpoint,
    Subtopology,
    TaskOffset,
    TopicInfo,
    Topology,
)
from support.group_requests import Protocol, committing, fetching
from support.streams_requests import PROCESSOR, SINK, SOURCE, describing, node, source_of, streaming

MOST_MEMBERS = 4
"""``group.streams.max.size`` of both brokers."""
CREATED_MS = 600
"""Long enough for internal topics to be created."""
HERE = StreamsGroupHeartbeatRequestEndpoint(host="here", port=9_000)


def _internal(name: str, partitions: int = 0, configs: Mapping[str, str] | None = None) -> TopicInfo:
    listed = [KeyValue(key=key, value=value) for key, value in (configs or {}).items()]
    return TopicInfo(name=name, partitions=partitions, replication_factor=0, topic_configs=listed)


def _topology(*subtopologies: Subtopology, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=list(subtopologies))


def _counting(of: str, configs: Mapping[str, str]) -> Topology:
    """A topology with a repartition topic and a changelog."""
    writer = source_of("0", "~t0", sinks=[f"{of}-r"])
    reader = source_of("1", repartition=[_internal(f"{of}-r")], changelogs=[_internal(f"{of}-c", configs=configs)])
    return _topology(writer, reader)


READING = _topology(source_of("0", "~t0"))


def _described(*groups: str, operations: bool = False) -> Step:
    request = StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    return call("d", 0, request)


def _beat(of: str, actor: str, epoch: Any = None, **fields: Any) -> Step:
    """A heartbeat of the member that is named like its actor; at its own epoch unless ``epoch`` says otherwise."""
    return call(actor, 0, streaming(of, actor, learned("generation", actor) if epoch is None else epoch, **fields))


def _heartbeat(_version: int) -> Iterator[Any]:
    yield from _impossible()
    yield from _invalid_topologies()
    yield from _one_member()
    yield from _internal_topics()
    yield from _two_members()
    yield from _full_group()
    yield from _other_kinds()


def _impossible() -> Iterator[Any]:
    """Requests that cannot be right, whatever the group."""
    of = "~wrong"
    yield from (streaming("", "m", 0, topology=READING), streaming(of, "", 0, topology=READING))
    yield from (streaming(of, "  ", -1), streaming(of, "m", -3), streaming(of, "m", -2), streaming(of, "m", 0))
    yield from (streaming(of, "m", 1), streaming(of, "m", -1), streaming(of, "m", -2, instance_id="~i"))
    yield streaming(of, "m", 0, topology=READING, rebalance_timeout_ms=-1)
    yield streaming(of, "m", 0, topology=READING, active={"0": [0]})
    yield streaming(of, "m", 0, topology=READING, warmup_tasks=None)
    yield streaming(of, "m", 0, topology=READING, instance_id="~i")
    yield streaming(of, "m", 0, topology=READING, rack_id="")
    yield streaming(of, "m", 1, topology=READING)
    offset = TaskOffset(subtopology_id="0", partition=0, offset=1)
    yield from (streaming(of, "m", 1, task_offsets=[offset]), streaming(of, "m", 1, task_end_offsets=[offset]))
    yield from (streaming(of, "m", 1, warmup={"0": [0]}), streaming(of, "m", 1, active_tasks=[]))


def _invalid_topologies() -> Iterator[Any]:
    of = "~invalid"
    regex = source_of("0", "~t0")
    regex.source_topic_regex = ["t.*"]
    stated = source_of("0", "~t0", changelogs=[_internal("~c", 3)])
    loop = (
        source_of("0", repartition=[_internal("~b")], sinks=["~a"]),
        source_of("1", repartition=[_internal("~a")], sinks=["~b"]),
    )
    for topology in (
        _topology(regex),
        _topology(stated),
        _topology(*loop),
        _topology(source_of("0", "~t0", repartition=[_internal("~a")])),
        _topology(source_of("0", "~t0"), source_of("1", changelogs=[_internal("~c")])),
        _topology(source_of("0", "~t0"), source_of("0", "~t1")),
        _topology(source_of("0", "__consumer_offsets", "__share_group_state")),
        _topology(source_of("0", "a b", "~t0", sinks=["?", "."])),
        _topology(source_of("0", "~t0"), epoch=-1),
        _topology(),
    ):
        yield streaming(of, "m", 0, topology=topology)
    yield streaming(f"{of}-less", "m", 0, topology=_topology(source_of("0", "~nowhere", "~t0", "~else")))
    yield _described(f"{of}-less")


def _one_member() -> Iterator[Any]:
    of = "~one"
    yield _beat(
        of, "m", 0, topology=READING, user_endpoint=HERE, rack_id="r", client_tags=[KeyValue(key="a", value="b")]
    )
    yield _beat(of, "m")
    yield _described(of)
    yield _beat(of, "m", active={"0": [0, 1]})
    yield from (_beat(of, "m", active={"0": [7]}), _beat(of, "m", active={"5": [0]}), _beat(of, "m", active={}))
    yield from (_beat(of, "m", 1), _beat(of, "m", 99), _beat(of, "m", active={"0": [0]}))
    yield _beat(of, "m", 0, topology=_topology(source_of("0", "~t0"), epoch=1))
    yield _beat(of, "m", 0, topology=_topology(source_of("0", "~t0", "~t1")))
    yield from _commits(of)
    yield _beat(of, "n", 1)
    yield _beat(of, "n", -1)
    yield call("c", 2, DeleteGroupsRequest(groups_names=[of]))
    yield _beat(of, "m", 0, topology=READING)
    yield _beat(of, "m", -1)
    yield _beat(of, "m")
    yield _described(of, operations=True)
    yield call("c", 2, DeleteGroupsRequest(groups_names=[of]))
    yield _described(of)


def _commits(of: str) -> Iterator[Any]:
    """Commits and fetches of the member, at its epoch and at others."""
    for epoch in (learned("generation", "m"), 1, 99, -1):
        for of_version in (8, 9):
            request = committing(of, {"~t0": [(0, 5, "x")]}, of_version)
            request.member_id, request.generation_id_or_member_epoch = "m", epoch
            yield call("m", of_version, request)
        asking = fetching((of, {"~t0": [0]}))
        asking.groups[0].member_id, asking.groups[0].member_epoch = "m", epoch
        yield call("m", 9, asking)


def _internal_topics() -> Iterator[Any]:
    """Missing topics are created; a refusal shows in a later status."""
    of = "~made"
    yield _beat(of, "m", 0, topology=_counting(of, {"cleanup.policy": "compact"}))
    yield Pause(CREATED_MS)
    yield _beat(of, "m", active={})
    yield _beat(of, "m", active={"0": [0, 1], "1": [0, 1]})
    yield _described(of)
    yield _beat(of, "m", shutdown_application=True)
    yield _beat(of, "m")
    yield _beat(of, "m", -1)
    of = "~refused"
    yield _beat(of, "m", 0, topology=_counting(of, {"nonsense": "x"}))
    yield Pause(CREATED_MS)
    yield _beat(of, "m")
    yield _beat(of, "m", -1)


def _two_members() -> Iterator[Any]:
    """The second member waits until the first has given something up."""
    of = "~two"
    yield _beat(of, "m", 0, topology=READING, process_id="p", user_endpoint=HERE)
    yield _beat(of, "n", 0, topology=READING, process_id="q")
    yield _described(of)
    yield _beat(of, "n")
    yield _beat(of, "m", active={"0": [0, 1]})
    yield _beat(of, "n")
    yield _beat(of, "m")
    yield _described(of)
    yield _beat(of, "m", active={"0": [0]})
    yield _beat(of, "n")
    yield _beat(of, "n", active={"0": [1]})
    yield _described(of, of, "~none")
    yield _beat(of, "n", -1)
    yield _beat(of, "m", active={"0": [0]})
    for states, types in (([], ["streams"]), (["Stable"], []), (["assigning", "Reconciling"], [])):
        yield call("c", 5, ListGroupsRequest(states_filter=states, types_filter=types))


def _full_group() -> Iterator[Any]:
    for number in range(MOST_MEMBERS + 1):
        yield _beat("~crowd", f"~crowd-{number}", 0, topology=READING)


def _other_kinds() -> Iterator[Any]:
    """A heartbeat to groups of the classic protocol, and a classic join to a streams group."""
    of = "~classic"
    yield call("c", 9, committing(of, {"~t0": [(0, 3, "m")]}))
    yield call("m", 0, streaming(of, "m", 1))
    yield from stable(f"{of}-held", "k", protocols=[Protocol("range", b"r")])
    yield call("m", 0, streaming(f"{of}-held", "m", 0, topology=READING))
    yield call("m", 0, streaming(f"{of}-held", "m", -1))
    yield _beat(of, "m", 0, topology=READING)
    yield join(of, "j", member="", protocols=[Protocol("range", b"r")])
    yield _beat(of, "m", -1)


def _describe(_version: int) -> Iterator[Any]:
    yield StreamsGroupDescribeRequest(group_ids=["~none", ""], include_authorized_operations=False)
    yield StreamsGroupDescribeRequest(group_ids=[], include_authorized_operations=False)
    yield from stable("~shown-classic")
    yield _beat("~shown", "m", 0, topology=READING, user_endpoint=HERE, rack_id="here")
    yield StreamsGroupDescribeRequest(group_ids=["~shown", "~shown-classic"], include_authorized_operations=True)


def _describe_topology(_version: int) -> Iterator[Any]:
    """A member is asked for the description of its topology; what is wrong with one, and the end of one."""
    of = "~described"

    def beat(epoch: Any = None, **fields: Any) -> Step:
        return call("m", 1, streaming(of, "m", learned("generation", "m") if epoch is None else epoch, **fields))

    def shown(**fields: Any) -> Step:
        request = StreamsGroupDescribeRequest(group_ids=[of, "~none"], include_authorized_operations=False, **fields)
        return call("d", 1, request)

    yield from (describing(of, "m"), describing(of, ""), describing("", "m"), describing(of, " "))
    yield beat(0, topology=READING)
    yield beat()
    yield shown(include_topology_description=True)
    yield from (describing(of, "n"), describing(of, "m", 1), describing(of, "m", -1))
    for node_type in (0, 4, -1, 127):
        yield describing(of, "m", nodes=[node("wrong", node_type)])
    source, processor = node("global", SOURCE, "fill", source_topics=["g"]), node("fill", PROCESSOR, stores=["s", "s"])
    yield describing(of, "m", stores=[(processor, source)])
    yield describing(of, "m", stores=[(source, source)])
    yield shown(include_topology_description=True)
    yield describing(of, "m", stores=[(source, processor)])
    yield from (beat(), shown(include_topology_description=True), shown())
    everywhere: Mapping[str, Any] = {"source_topics": ["a", "b", "a"], "stores": ["s", "s", "t"], "sink_topic": "k"}
    yield describing(
        of, "m", nodes=[node(f"n{each}", each, "x", "y", "x", **everywhere) for each in (SOURCE, PROCESSOR, SINK)]
    )
    yield shown(include_topology_description=True)
    yield describing(of, "m", nodes=[])
    yield shown(include_topology_description=True)
    yield from stable(f"{of}-classic", "k")
    yield describing(f"{of}-classic", "m")
    yield beat(-1)
    yield describing(of, "m")
    yield shown(include_topology_description=True)
    yield call("c", 3, DeleteGroupsRequest(groups_names=[of, "~none"]))
    yield shown(include_topology_description=True)


PATHS: Mapping[int, Any] = {
    api.STREAMS_GROUP_HEARTBEAT: _heartbeat,
    api.STREAMS_GROUP_DESCRIBE: _describe,
    api.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: _describe_topology,
}
"""By api key; see `error_paths.Paths`."""
