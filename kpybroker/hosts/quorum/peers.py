"""The other nodes of the quorum, over the network: addressed by their ids, with the messages of
`kpybroker.machines.raft`.

It knows where each of them listens: from the voters' records, from the configuration, or from what the nodes report
about one another. Nothing is retried here. Connections to addresses where no voter, leader or bootstrap server listens
any more are closed.

Invariant: every request is answered once, with a response and its record batches, or with None.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kpybroker.hosts.network.peer import NoResponse
from kpybroker.machines.raft.messages import FetchResponse, Request, Response
from kpybroker.machines.raft.voters import VoterEndpoint, VoterHistory, Voters
from kpybroker.machines.raft.wire_form import endpoints_in, response_from_wire, to_wire
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.errors import Malformed

if TYPE_CHECKING:
    from kpybroker.hosts.network.peers import Peers

WRONG_NODE_ERRORS = frozenset((error_codes.INVALID_VOTER_KEY, error_codes.NOT_LEADER_OR_FOLLOWER))
FIRST_BOOTSTRAP_ID = -2
"""The ids of bootstrap servers begin here and go down, as in Kafka."""


class OnResponse(Protocol):
    """The function that a request is answered through."""

    def __call__(self, response: Response | None, *, is_gone: bool = False) -> object:
        """Take the response, or None; ``is_gone`` if the process that was asked has ended."""


class Whereabouts(NamedTuple):
    """The endpoints that this node announces, and where it finds the quorum."""

    cluster_id: str
    listener_name: str
    """The listener name of the controllers."""
    local: tuple[VoterEndpoint, ...]
    bootstrap: Sequence[tuple[str, int]] = ()
    """``controller.quorum.bootstrap.servers``."""

    @property
    def bootstrap_ids(self) -> list[int]:
        """The ids that stand for the bootstrap servers."""
        return [FIRST_BOOTSTRAP_ID - number for number in range(len(self.bootstrap))]


class QuorumPeers:
    """Sends the messages of the quorum."""

    def __init__(self, peers: "Peers", where: Whereabouts, local_id: int, history: VoterHistory) -> None:
        self._peers = peers
        self._where = where
        self._local_id = local_id
        self._history = history
        self._notified: dict[int, tuple[VoterEndpoint, ...]] = {}
        """The endpoints of other nodes, as nodes have reported them, one of each listener."""
        self.troubles: dict[str, str] = {}
        """The trouble at each address where a node of the quorum should listen, as found at the last request."""
        self._kept: tuple[Voters, int] | None = None
        """The voters and leader at the last clean-up of connections; None if a node has changed its address since."""

    def learn(self, message: Any) -> None:
        """Note the endpoints of other nodes that a request or response contains."""
        for node_id, announced in endpoints_in(message, self._where.listener_name).items():
            known = {each.name: each for each in self._endpoints(node_id)}
            now = {**known, **{each.name: each for each in announced}}
            if now != known and node_id != self._local_id:
                self._notified[node_id] = tuple(now.values())
                self._kept = None

    def endpoint(self, node_id: int) -> VoterEndpoint | None:
        """The endpoint where a node listens for other nodes; None if unknown."""
        if node_id <= FIRST_BOOTSTRAP_ID:
            host, port = self._where.bootstrap[FIRST_BOOTSTRAP_ID - node_id]
            return VoterEndpoint(self._where.listener_name, host, port)
        return self.endpoint_of(node_id, self._where.listener_name) or next(iter(self._endpoints(node_id)), None)

    def endpoint_of(self, node_id: int, listener_name: str) -> VoterEndpoint | None:
        """The endpoint of a node's listener; None if unknown."""
        named = (endpoint for endpoint in self._endpoints(node_id) if endpoint.name == listener_name)
        return next(named, None)

    def _endpoints(self, node_id: int) -> tuple[VoterEndpoint, ...]:
        return self._notified.get(node_id) or self._written(node_id)

    def _written(self, node_id: int) -> tuple[VoterEndpoint, ...]:
        voter = self._history.voters.get(node_id)
        return self._where.local if node_id == self._local_id else () if voter is None else voter.endpoints

    def send(self, node_id: int, request: Request, done: OnResponse) -> bool:
        """Send a request to a node. Return False, without calling ``done``, if its address is unknown."""
        endpoint = self.endpoint(node_id)
        if endpoint is None:
            return False
        message = to_wire(request, self._where.cluster_id, self._where.local)
        place = f"{endpoint.host}:{endpoint.port}"
        self._peers.at(endpoint.host, endpoint.port).send(
            message, lambda answer: self._answered(node_id, place, answer, done)
        )
        return True

    def _answered(self, node_id: int, place: str, answer: Any, done: OnResponse) -> None:
        if isinstance(answer, NoResponse):
            self.troubles[place] = answer.reason
            self._go_by_what_is_written(node_id)
            done(None, is_gone=answer.has_no_listener)
            return
        self.learn(answer)
        response, records = response_from_wire(answer)
        if response.known.error_code == error_codes.NONE:
            self.troubles.pop(place, None)
        else:
            self.troubles[place] = error_codes.message(response.known.error_code)
        if response.known.error_code in WRONG_NODE_ERRORS:
            self._go_by_what_is_written(node_id)  # another process may listen there
        if records and isinstance(response, FetchResponse):
            try:
                batches = [records[start : start + header.size] for start, header in batch_headers(records)]
            except Malformed:
                done(None)
                return
            response = response._replace(batches=batches)
        done(response)

    def _go_by_what_is_written(self, node_id: int) -> None:
        """Forget the reported address of a node where nothing, or another process, listens; its address in the voters'
        records counts again."""
        if self._written(node_id) and self._notified.pop(node_id, None) is not None:
            self._kept = None

    def is_stale(self, leader_id: int) -> bool:
        """Whether some connections may not be needed any more."""
        kept = self._kept
        return kept is None or kept[0] is not self._history.voters or kept[1] != leader_id

    def prune(self, leader_id: int) -> None:
        """Close the connections that are not needed any more; outstanding requests over them are answered with None."""
        voters = self._history.voters
        self._kept = voters, leader_id
        needed = [*voters, leader_id, *self._where.bootstrap_ids]
        self._notified = {node_id: endpoint for node_id, endpoint in self._notified.items() if node_id in needed}
        endpoints = [self.endpoint(node_id) for node_id in needed]
        addresses = [(each.host, each.port) for each in endpoints if each is not None]
        places = {f"{host}:{port}" for host, port in addresses}
        self.troubles = {place: reason for place, reason in self.troubles.items() if place in places}
        self._peers.keep(addresses)

    def close(self) -> None:
        """Close all connections; answers to outstanding requests are ignored."""
        self._peers.close()
