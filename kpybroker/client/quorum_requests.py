"""The requests of ``kpybroker cluster voters`` and ``controllers``: the controllers' quorum (KIP-853)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kpybroker.client import cluster_requests
from kpybroker.client.client import Client, raise_for
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kpywire.messages.unregister_controller import UnregisterControllerRequest
from kpywire.uuid import to_string

OBSERVER: Final = "observer"
WAIT_S: Final = 60.0
"""A voter joins when it has caught up."""


class QuorumController(NamedTuple):
    """A controller of the quorum."""

    id: int
    directory_id: bytes
    role: str
    """``leader``, ``voter``, or ``observer`` for one that is not a voter."""
    addresses: tuple[str, ...]
    """Addresses such as ``CONTROLLER://host:port``; of voters only."""


def controllers(client: Client) -> list[QuorumController]:
    """The voters, and the observers that are no brokers, by id. Raises KafkaError."""
    answer = cluster_requests.describe_quorum(client)
    found = answer.topics[0].partitions[0]
    addresses = {
        node.node_id: tuple(f"{each.name}://{each.host}:{each.port}" for each in node.listeners)
        for node in answer.nodes
    }
    brokers = {each.broker_id for each in cluster_requests.describe(client).brokers}
    return sorted(
        QuorumController(
            each.replica_id,
            each.replica_directory_id,
            "leader" if each.replica_id == found.leader_id else role,
            addresses.get(each.replica_id, ()),
        )
        for role, states in (("voter", found.current_voters), (OBSERVER, found.observers))
        for each in states
        if role == "voter" or each.replica_id not in brokers
    )


def add_voter(client: Client, voter: int, directory_id: bytes, listeners: Sequence[tuple[str, str, int]]) -> None:
    """Make a controller that runs a voter. Raises KafkaError."""
    request = AddRaftVoterRequest(
        cluster_id=cluster_requests.describe(client).cluster_id,
        timeout_ms=int(WAIT_S * 1000),
        voter_id=voter,
        voter_directory_id=directory_id,
        listeners=[Listener(name=name, host=host, port=port) for name, host, port in listeners],
    )
    answer = client.call(request, wait_s=WAIT_S)
    raise_for(answer.error_code, f"controller {voter}", answer.error_message)


def voter_directory(client: Client, voter: int, directory_id: bytes | None) -> bytes:
    """The directory of the voter with an id, or the one that was named. VOTER_NOT_FOUND if there is none."""
    voters = [each for each in controllers(client) if each.id == voter and each.role != OBSERVER]
    chosen = [each.directory_id for each in voters if directory_id in (None, each.directory_id)]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(to_string(each.directory_id) for each in voters)
    text = (
        f"several voters have the id {voter}, with the directories {known}" if chosen else f"there is no voter {voter}"
    )
    if known and not chosen:
        text = f"voter {voter} has the directory {known}"
    raise KafkaError(error_codes.VOTER_NOT_FOUND, text)


def remove_voter(client: Client, voter: int, directory_id: bytes) -> None:
    """Take a voter out of the quorum. Raises KafkaError."""
    request = RemoveRaftVoterRequest(
        cluster_id=cluster_requests.describe(client).cluster_id, voter_id=voter, voter_directory_id=directory_id
    )
    answer = client.call(request, wait_s=WAIT_S)
    raise_for(answer.error_code, f"controller {voter}", answer.error_message)


def unregister_controller(client: Client, controller: int) -> None:
    """Let the cluster forget a controller that will not come back. Raises KafkaError."""
    answer = client.retrying(lambda: client.call(UnregisterControllerRequest(controller_id=controller)))
    raise_for(answer.error_code, f"controller {controller}", answer.error_message)
