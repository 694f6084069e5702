"""The lines of machines that own znodes: their writes in ZooKeeper, their requests to brokers, and the tree."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from reigning import Asker, Candidate, Cluster
from rendering import Names

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Get, Multi, OperationFailed, Set
from kpybroker.machines.zookeeper.controller.batch import FULL, BrokerRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from kpybroker.machines.zookeeper.controller.reign import ControllerSettings
from kpybroker.machines.zookeeper.tree import controller, paths
from kpywire.uuid import from_string

TOPIC_ID = re.compile('"topic_id":"([^"]{22})"')


def write_lines(caller: str, operation: Any, result: Any, names: Names) -> Iterator[str]:
    """A line for each write; reads and checks of versions have none. ``caller`` is the writer."""
    failed = f" ({error_codes.name(result.code)})" if isinstance(result, OperationFailed) else ""
    for each in operation.operations if isinstance(operation, Multi) else (operation,):
        if isinstance(each, Create):
            kind = " ephemeral" if each.is_ephemeral else ""
            yield f"+ {caller} create{kind} {each.path}{content(each.data, names)}{failed}"
        elif isinstance(each, Set):
            yield f"+ {caller} set {each.path}{content(each.data, names)}{failed}"
        elif isinstance(each, Delete):
            yield f"+ {caller} delete {each.path}{failed}"


def content(data: bytes | None, names: Names) -> str:
    """The content of a znode with short names for ids of topics."""
    text = (data or b"").decode()
    for topic_id in TOPIC_ID.findall(text):
        text = text.replace(topic_id, names.render(from_string(topic_id)))
    return f" {text}" if text else ""


def request_lines(requests: Iterable[BrokerRequest]) -> list[str]:
    """A line for each request, those that are alike with all their receivers in one."""
    receivers: dict[tuple[str, str], list[int]] = {}
    for each in requests:
        receivers.setdefault((type(each).__name__, request_text(each)), []).append(each.receiver)
    return [f"= {name} to {', '.join(map(str, to))}:{text}" for (name, text), to in receivers.items()]


def request_text(request: BrokerRequest) -> str:
    """The partitions of a request, each with the fields that matter to a reader."""
    words = [" everything"] if request.kind == FULL else []
    if isinstance(request, LeaderAndIsr):
        for (topic, number), found in request.partitions.items():
            state, assignment = found.leadership.state, found.assignment
            moves = {"adding": assignment.adding, "removing": assignment.removing}
            more = "".join(f" {name}={list(ids)}" for name, ids in moves.items() if ids)
            words.append(
                f" {topic}-{number} (leader={state.leader} leader_epoch={state.leader_epoch} isr={list(state.isr)} "
                f"replicas={list(assignment.replicas)}{more}{' is_new=true' if found.is_new else ''})"
            )
    elif isinstance(request, UpdateMetadata):
        for (topic, number), found in request.partitions.items():
            offline = f" offline_replicas={list(found.offline_replicas)}" if found.offline_replicas else ""
            words.append(f" {topic}-{number} (leader={found.leader} isr={list(found.isr)}{offline})")
        words.append(f" live_brokers={[each.broker_id for each in request.live_brokers]}")
    elif isinstance(request, StopReplica):
        for (topic, number), stop in request.partitions.items():
            words.append(f" {topic}-{number} (delete_partition={str(stop.deletes).lower()})")
    return "".join(words)


def tree_states(cluster: Cluster) -> dict[Any, str]:
    """The controller, and each partition, as the tree has them."""
    states: dict[Any, str] = {}
    elected = cluster.admin.ask(Get(paths.CONTROLLER))
    epoch = cluster.admin.ask(Get(paths.CONTROLLER_EPOCH))
    if isinstance(elected, OperationFailed):
        states["controller"] = "no controller"
    else:
        found = controller.ElectedController.decode(elected.data)
        kind = " of KRaft" if found.is_kraft else ""
        states["controller"] = f"controller{kind}: {found.broker_id} epoch={controller.decode_epoch(epoch.data)}"
    states["brokers"] = f"brokers: {', '.join(cluster.children(paths.BROKER_IDS)) or 'none'}"
    for name in cluster.children(paths.TOPICS):
        for number, replicas in cluster.assignment(name).replicas.items():
            text = f"replicas={list(replicas)}"
            if cluster.is_there(paths.partition_state(name, number)):
                state = cluster.state(name, number)
                text += f" isr={list(state.isr)} leader={state.leader} leader_epoch={state.leader_epoch}"
            states[name, number] = f"{name}-{number}: {text}"
    return states


class ZooKeeperStory(Protocol):
    """A story whose lines a candidate adds to."""

    cluster: Cluster
    lines: list[str]
    names: Names


class StoryAsker(Asker):
    """A session whose writes are lines of the story."""

    def __init__(self, story: ZooKeeperStory, candidate_id: int) -> None:
        self._story = story
        self._candidate_id = candidate_id
        super().__init__(story.cluster.server)

    def ask(self, operation: Any) -> Any:
        result = super().ask(operation)
        self._story.lines += write_lines(str(self._candidate_id), operation, result, self._story.names)
        return result


class StoryCandidate(Candidate):
    """A broker that may be the controller. Its requests are lines of the story."""

    def __init__(self, story: ZooKeeperStory, candidate_id: int) -> None:
        self.story = story
        super().__init__(story.cluster, candidate_id, ControllerSettings())
        self.session = StoryAsker(story, candidate_id)

    def _send(self, requests: list[BrokerRequest]) -> None:
        self.story.lines += request_lines(requests)
        super()._send(requests)
