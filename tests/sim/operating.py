"""Operators who move partitions to other brokers and controllers in and out of the quorum, under full load.

No client is ever to notice it beyond a retry. What an operator wants may be refused at any moment; what was begun comes
to its end once everything heals.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kpywire import error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest

from .client import Client, NoAnswer
from .kind import BROKER
from .layout import CLUSTER_ID, CONTROLLER_PORT
from .settling import newest_image

if TYPE_CHECKING:
    from .machine import Machine

FEWEST_VOTERS = 2
QUORUM = "__cluster_metadata"


async def reassign(client: Client, machines: "list[Machine]") -> None:
    """Move partitions to any two or three brokers, or take that back."""
    rng = client.rng
    while not client.is_over:
        await client.pause(rng.choice((100, 1_000)))
        image = newest_image(machines)
        brokers = [] if image is None else [each.id for each in image.brokers.values() if not each.fenced]
        topics = [] if image is None else image.topics.values()
        places = [(topic, index) for topic in topics for index in topic.partitions]
        if len(brokers) < 2 or not places:
            continue
        topic, index = rng.choice(places)
        replicas: list[int] | None = rng.sample(brokers, rng.randint(2, min(3, len(brokers))))
        if topic.partitions[index].adding_replicas and rng.random() < 0.3:
            replicas = None
        wanted = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic.name, partitions=[wanted])])
        try:
            answer = await client.ask(client.controller_or_any(), request)
        except NoAnswer:
            continue
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        client.world.tell(f"{topic.name}-{index} is to be on {replicas}: {error_codes.name(code)}")


async def change_voters(client: Client, roles: dict[int, str]) -> None:
    """Take controllers out of the quorum and back into it, one after the other."""
    rng = client.rng
    while not client.is_over:
        await client.pause(rng.choice((200, 1_500)))
        try:
            voters, observers = await _quorum(client)
            joining = [each for each in observers if roles[each[0]] != BROKER]
            leaving = voters if len(voters) > FEWEST_VOTERS else []
            if joining and (not leaving or rng.random() < 0.6):
                node_id, directory_id = rng.choice(joining)
                here = Listener(name="CONTROLLER", host=f"n{node_id}", port=CONTROLLER_PORT)
                add = AddRaftVoterRequest(
                    cluster_id=CLUSTER_ID,
                    timeout_ms=2_000,
                    voter_id=node_id,
                    voter_directory_id=directory_id,
                    listeners=[here],
                )
                answer, what = await client.ask(client.any_node(), add), "is to vote"
            elif leaving:
                node_id, directory_id = rng.choice(leaving)
                remove = RemoveRaftVoterRequest(
                    cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id
                )
                answer, what = await client.ask(client.any_node(), remove), "is to vote no more"
            else:
                continue
        except NoAnswer:
            continue
        client.world.tell(f"n{node_id} {what}: {error_codes.name(answer.error_code)} {answer.error_message or ''}")


async def _quorum(client: Client) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
    """Voters and observers, each with its directory. Raises NoAnswer."""
    wanted = [DescribeQuorumRequestPartitionData(partition_index=0)]
    request = DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=QUORUM, partitions=wanted)])
    answer = await client.ask(client.any_node(), request)
    if answer.error_code or not answer.topics or answer.topics[0].partitions[0].error_code:
        raise NoAnswer("nobody leads")
    found = answer.topics[0].partitions[0]
    return _named(found.current_voters), _named(found.observers)


def _named(replicas: Sequence[Any]) -> list[tuple[int, bytes]]:
    return sorted((each.replica_id, each.replica_directory_id) for each in replicas)
