"""The way from a node to the active controller, wherever it is (Kafka's ``NodeToControllerChannelManager``).

A request goes to the controller of this process if that is the active one, else over the network to the leader that the
quorum's replica knows. A request that finds no controller there, or whose connection is lost, goes to the next leader.
If it finds none within ``request.timeout.ms``, it is answered with a timeout.

A request of a client is authorised by the controller. To another node it travels in an envelope, with the client's
principal and address; in this process the same guard stands before the controller. Without security there are neither.

Invariant: ``reply`` of every request is called once, with the controller's response or with one that says
REQUEST_TIMED_OUT.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kpybroker.hosts.network.peer import NoResponse, Peer
from kpybroker.hosts.network.peers import Peers
from kpybroker.machines.answered_errors import names_no_controller
from kpybroker.machines.raft.local_state import LocalState
from kpybroker.machines.raft.voters import VoterEndpoint
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpybroker.runtime.calls.steps import Work, at_once
from kpywire import error_codes
from kpywire.errors import Malformed

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")

RETRY_MS = 50

Reply = Callable[[Any], object]
Admit = Callable[[Any, Call, Callable[[Any, Reply], object], Reply], object]
"""(request, call, decide, reply): have ``decide`` answer the part of a client's request that it may make."""


class Forwarding(NamedTuple):
    """The treatment of clients' requests."""

    admit: Admit | None = None
    """The guard of the controller in this process; None without an authorizer."""
    in_envelopes: bool = False
    """Whether controllers elsewhere get the client's principal. Without security there is only one principal."""


OPEN: Forwarding = Forwarding()
"""The treatment without security."""


class QuorumReplica(Protocol):
    """This node's replica of the metadata log, as far as finding controllers needs it."""

    @property
    def is_active(self) -> bool:
        """Whether the controller of this process accepts requests."""

    @property
    def controller_id(self) -> int: ...

    @property
    def kraft_version(self) -> int: ...

    @property
    def local_state(self) -> LocalState: ...

    @property
    def leader_endpoint(self) -> VoterEndpoint | None: ...

    def when_leader_changes(self, changed: Callable[[], object]) -> None: ...

    def send(
        self,
        request: Any,
        reply: Reply,
        *,
        api_version: int | None = None,
        principal: Principal = ANONYMOUS,
        client_id: str = "",
    ) -> None: ...


class _Call:
    __slots__ = ("api_version", "deadline_ms", "is_out", "reply", "request", "sender")

    def __init__(self, request: Any, reply: Reply, api_version: int | None, deadline_ms: float) -> None:
        self.request = request
        self.reply = reply
        self.api_version = api_version
        self.deadline_ms = deadline_ms
        self.sender: Call | None = None
        """The call of the client that sent the request; None if it is a request of this node."""
        self.is_out = False
        """Whether it has been sent and its response is outstanding."""


class ControllerChannel:
    """The requests of this node to the active controller."""

    def __init__(
        self,
        scheduler: "Scheduler",
        replica: QuorumReplica,
        peers: Peers,
        request_timeout_ms: float,
        forwarding: Forwarding = OPEN,
    ) -> None:
        self._scheduler = scheduler
        self._replica = replica
        self._peers = peers
        self._timeout_ms = request_timeout_ms
        self._forwarding = forwarding
        self._calls: dict[_Call, None] = {}
        """The requests without an answer, in the order in which they came."""
        self._peer: Peer | None = None
        self._timer: Timer | None = None
        self.is_lost = False
        """Whether the last request to the controller got no response."""
        replica.when_leader_changes(self._leader_changed)

    @property
    def controller_id(self) -> int:
        """The node whose controller is active; -1 when this node knows of none."""
        return self._replica.controller_id

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``."""
        return self._replica.kraft_version

    @property
    def local_state(self) -> LocalState:
        """This node's place in the quorum now."""
        return self._replica.local_state

    def send(self, request: Any, reply: Reply, *, api_version: int | None = None) -> None:
        """Send a request of this node, in ``api_version`` or an older one if the controller knows only that."""
        self._begin(_Call(request, reply, api_version, self._scheduler.monotonic_ms() + self._timeout_ms))

    def forward(self, request: Any, call: Call, reply: Reply) -> None:
        """Send the request of a client, in the version of its call."""
        forwarded = _Call(request, reply, call.api_version, self._scheduler.monotonic_ms() + self._timeout_ms)
        forwarded.sender = call
        self._begin(forwarded)

    def _begin(self, call: _Call) -> None:
        self._calls[call] = None
        self._ask(call)

    def close(self) -> None:
        """Send no more requests, and call no more replies."""
        self._calls.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._peers.close()

    def _ask(self, call: _Call) -> None:
        replica = self._replica
        if replica.is_active:
            call.is_out = True
            self._decide_here(call)
            return
        endpoint = replica.leader_endpoint
        if endpoint is None:
            self._later()
            return
        call.is_out = True
        if (endpoint.host, endpoint.port) not in self._peers:
            self._peers.keep([(endpoint.host, endpoint.port)])
        self._peer = self._peers.at(endpoint.host, endpoint.port)
        if call.sender is not None and self._forwarding.in_envelopes:
            from kpybroker.hosts.quorum.envelopes import envelope_of  # not of a plain start

            self._peer.send(envelope_of(call.request, call.sender), lambda response: self._enveloped(call, response))
        else:
            self._peer.send(call.request, lambda response: self._answered(call, response), newest=call.api_version)

    def _decide_here(self, call: _Call) -> None:
        """Have the controller of this process decide."""
        replica, sender, version = self._replica, call.sender, call.api_version
        if sender is None:
            replica.send(call.request, lambda response: self._answered(call, response), api_version=version)
            return
        principal, client_id = sender.principal, sender.client_id or ""

        def decide(request: Any, reply: Reply) -> None:
            replica.send(request, reply, api_version=version, principal=principal, client_id=client_id)

        def reply(response: Any) -> None:
            self._answered(call, response)

        if self._forwarding.admit is None:
            decide(call.request, reply)
        else:
            self._forwarding.admit(call.request, sender, decide, reply)

    def _enveloped(self, call: _Call, response: Any) -> None:
        """Take the answer of an envelope. A client gets no error that is about its broker, only that there was one."""
        if isinstance(response, NoResponse):
            self._answered(call, response)
            return
        from kpybroker.hosts.quorum.envelopes import opened

        assert call.sender is not None
        code = response.error_code
        if code == error_codes.NOT_CONTROLLER:
            call.is_out = False
            if call in self._calls:
                self._later()
            return
        if code == error_codes.NONE and response.response_data is not None:
            try:
                self._answered(call, opened(response.response_data, call.sender))
                return
            except Malformed as error:
                log.warning("The controller's answer to a forwarded request cannot be read: %s", error)
        elif code == error_codes.UNSUPPORTED_VERSION:  # the client asks again which versions are served
            self._calls.pop(call, None)
            call.sender.peer.give_up("the controller does not serve this version of a forwarded request")
            return
        else:
            log.warning(
                "The controller refuses requests that this broker forwards: %s. The broker's principal must be one of "
                "super.users, or have CLUSTER_ACTION on the cluster",
                error_codes.name(code),
            )
        self._answered(call, self._failed(call, error_codes.UNKNOWN_SERVER_ERROR))

    def _answered(self, call: _Call, response: Any) -> None:
        self.is_lost = isinstance(response, NoResponse)
        if call not in self._calls:
            return
        if isinstance(response, NoResponse):
            call.is_out = False
            if response.is_refused:
                self._settle(call, self._failed(call, error_codes.UNSUPPORTED_VERSION))
            else:
                self._later()
        elif call.sender is None:
            at_once(self._read(call, response))
        else:
            call.sender.peer.share(self._read(call, response))

    def _read(self, call: _Call, response: Any) -> Work:
        """Pass on a response unless it is about its node, in steps: the request of a client has a long one."""
        is_from_another = yield from names_no_controller(response)
        call.is_out = False
        if is_from_another:
            self._later()
        elif call in self._calls:
            self._settle(call, response)

    def _leader_changed(self) -> None:
        """Send the requests that wait for a former controller to the new one."""
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.close()
        self._again()

    def _later(self) -> None:
        if self._timer is None:
            self._timer = self._scheduler.call_later(RETRY_MS, self._due)

    def _due(self) -> None:
        self._timer = None
        self._again()

    def _again(self) -> None:
        now_ms = self._scheduler.monotonic_ms()
        for call in list(self._calls):
            if call.is_out or call not in self._calls:
                continue
            if call.deadline_ms <= now_ms:
                self._settle(call, self._failed(call, error_codes.REQUEST_TIMED_OUT))
            else:
                self._ask(call)

    def _settle(self, call: _Call, response: Any) -> None:
        del self._calls[call]
        call.reply(response)

    @staticmethod
    def _failed(call: _Call, error_code: int) -> Any:
        from kpybroker.machines.controller.error_responses import plain_error_response

        version = type(call.request).VERSIONS[-1] if call.api_version is None else call.api_version
        return plain_error_response(call.request, version, error_code)
