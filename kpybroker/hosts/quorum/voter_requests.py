"""Requests to change the voters, with the checks that the quorum need not make: whether a request is well-formed, and
whether the new voter can be reached.

Invariant: a voter is added only if it answers at the address that it gives.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kpybroker import __version__
from kpybroker.hosts.network.peer import SOFTWARE_NAME, NoResponse
from kpybroker.hosts.quorum.shell import QuorumShell, Reply
from kpybroker.machines.raft import voter_changes
from kpybroker.machines.raft.messages import Known, VoterResponse
from kpybroker.machines.raft.roles import Leader
from kpybroker.machines.raft.voter_wire import answer_to_wire, change_from_wire
from kpywire import error_codes
from kpywire.messages.add_raft_voter import AddRaftVoterRequest
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kpywire.messages.update_raft_voter import UpdateRaftVoterRequest
from kpywire.uuid import ZERO_UUID

if TYPE_CHECKING:
    from kpybroker.hosts.network.peers import Peers

KRAFT_VERSIONS_OF_OLD_NODES = (0, 0)


class VoterRequests:
    """Checks these requests and passes them to the quorum."""

    def __init__(self, shell: QuorumShell, cluster_id: str, listener_name: str, peers: "Peers | None") -> None:
        """``listener_name`` is the listener of the controllers, which every voter must have."""
        self._shell = shell
        self._cluster_id = cluster_id
        self._listener_name = listener_name
        self._peers = peers

    def asked(self, message: Any, reply: Reply, listener_name: str = "") -> None:
        """Pass a request on, or refuse it. ``listener_name`` is where it came in, if the answer names an endpoint."""
        refusal = self._wrong(message)
        if refusal is not None:
            self._refuse(message, reply, refusal, listener_name)
        elif isinstance(message, AddRaftVoterRequest):
            self._add(message, reply)
        elif isinstance(message, UpdateRaftVoterRequest):
            feature = message.kraft_version_feature
            levels = feature.min_supported_version, feature.max_supported_version
            self._shell.ask(message, change_from_wire(message, levels), reply, listener_name)
        else:
            self._shell.ask(message, change_from_wire(message, KRAFT_VERSIONS_OF_OLD_NODES), reply)

    def _wrong(self, message: Any) -> voter_changes.VotersRefusal | None:
        if message.cluster_id not in (None, self._cluster_id):
            text = f'The given id "{message.cluster_id}" doesn\'t match the cluster id "{self._cluster_id}"'
            return voter_changes.VotersRefusal(error_codes.INCONSISTENT_CLUSTER_ID, text)
        if not self._shell.quorum.is_leader:
            return None  # the quorum knows what to say
        doing = "Add" if isinstance(message, AddRaftVoterRequest) else "Remove"
        if message.voter_id < 0 or message.voter_directory_id == ZERO_UUID:
            text = f"{doing} voter request didn't include a valid voter"
            return voter_changes.VotersRefusal(error_codes.INVALID_REQUEST, text)
        if isinstance(message, RemoveRaftVoterRequest):
            return None
        named = [f"ListenerName({each.name})={each.host}/<unresolved>:{each.port}" for each in message.listeners]
        if not any(each.name == self._listener_name for each in message.listeners):
            text = (
                f"Add voter request didn't include the endpoint (Endpoints(endpoints={{{', '.join(named)}}})) for the "
                f"default listener ListenerName({self._listener_name})"
            )
            return voter_changes.VotersRefusal(error_codes.INVALID_REQUEST, text)
        if isinstance(message, UpdateRaftVoterRequest):
            feature = message.kraft_version_feature
            if not 0 <= feature.min_supported_version <= feature.max_supported_version:
                return voter_changes.VotersRefusal(error_codes.INVALID_REQUEST)
        return None

    def _refuse(
        self, message: Any, reply: Reply, refusal: voter_changes.VotersRefusal, listener_name: str = ""
    ) -> None:
        quorum = self._shell.quorum
        known = Known(quorum.epoch, quorum.leader_id, refusal.error_code)
        leader = self._shell.endpoint(quorum.leader_id, listener_name)
        reply(answer_to_wire(message, VoterResponse(known, refusal.message), leader))

    def _add(self, message: AddRaftVoterRequest, reply: Reply) -> None:
        """Check that the new voter answers at its address, and what it supports; then ask the quorum."""
        quorum = self._shell.quorum
        request = change_from_wire(message, (0, quorum.history.kraft_version))
        role = quorum.role
        if self._peers is None or not isinstance(role, Leader) or voter_changes.refusal(role, quorum.history, request):
            self._shell.ask(message, request, reply)  # which knows what to say
            return
        (listener,) = [each for each in message.listeners if each.name == self._listener_name][:1]
        hello = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self._peers.ask_once(listener.host, listener.port, hello, self._probed(message, reply))

    def _probed(self, message: AddRaftVoterRequest, reply: Reply) -> Callable[[Any], None]:
        def answered(answer: Any) -> None:
            if isinstance(answer, NoResponse):
                text = (
                    "Aborted add voter operation for since API_VERSIONS returned an error "
                    f"{error_codes.name(error_codes.BROKER_NOT_AVAILABLE)}"
                )
                self._refuse(message, reply, voter_changes.VotersRefusal(error_codes.REQUEST_TIMED_OUT, text))
                return
            levels = KRAFT_VERSIONS_OF_OLD_NODES
            for feature in answer.supported_features:
                if feature.name == voter_changes.KRAFT_VERSION:
                    levels = feature.min_version, feature.max_version
            self._shell.ask(message, change_from_wire(message, levels), reply)

        return answered
