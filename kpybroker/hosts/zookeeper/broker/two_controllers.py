"""The two ways of a broker that migrates to KRaft: to the controller in ZooKeeper, and to the KRaft quorum.

The broker is registered with both. The last UpdateMetadata says which of them rules (KIP-866): its requests, its epoch
and its leave go there. Requests whose answer is outstanding when the rule changes are sent again to the new controller.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

from kpybroker.hosts.lifecycle import BrokerState
from kpybroker.hosts.zookeeper.broker.known_controller import ZooKeeperController
from kpybroker.machines.raft.local_state import LocalState
from kpybroker.runtime.calls.call import Call
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

Reply = Callable[[Any], object]


class QuorumChannel(Protocol):
    """The way to the active controller of the quorum."""

    @property
    def kraft_version(self) -> int: ...

    @property
    def controller_id(self) -> int: ...

    @property
    def local_state(self) -> LocalState: ...

    def send(self, request: Any, reply: Reply, *, api_version: int | None = None) -> None: ...

    def forward(self, request: Any, call: Call, reply: Reply) -> None: ...


class OneRegistration(Protocol):
    """One of the registrations of this broker."""

    state: BrokerState

    def epoch(self) -> int: ...

    def report(self) -> None: ...


class _Outstanding:
    __slots__ = ("api_version", "attempt", "call", "reply", "request")

    def __init__(self, request: Any, reply: Reply, api_version: int | None, call: Call | None = None) -> None:
        """``call`` is that of a client whose request this is; None for a request of this broker."""
        self.request = request
        self.reply = reply
        self.api_version = api_version
        self.call = call
        self.attempt = 0


class TwoControllers:
    """The way to the controller that rules."""

    def __init__(
        self, in_zookeeper: ZooKeeperController, own: QuorumChannel, clients: QuorumChannel, rules: Callable[[], bool]
    ) -> None:
        """``own`` takes requests of this broker, ``clients`` those of clients. ``rules``: whether the quorum rules."""
        self._in_zookeeper = in_zookeeper
        self._own = own
        self._clients = clients
        self._rules = rules
        self._ruled = False
        self._outstanding: dict[_Outstanding, None] = {}

    @property
    def controller_id(self) -> int:
        """The node whose controller rules; -1 if none is known."""
        return self._clients.controller_id if self._rules() else self._in_zookeeper.controller_id

    @property
    def kraft_version(self) -> int:
        """The finalised level of ``kraft.version``."""
        return self._clients.kraft_version if self._rules() else self._in_zookeeper.kraft_version

    @property
    def local_state(self) -> LocalState:
        """The place of this node in a quorum."""
        return self._clients.local_state if self._rules() else self._in_zookeeper.local_state

    def look(self) -> None:
        """The rule may have changed."""
        if self._rules() is not self._ruled:
            self._ruled = self._rules()
            for each in list(self._outstanding):
                if each.call is None or not self._ruled:
                    self._send(each)

    def send(self, request: Any, reply: Reply, *, api_version: int | None = None) -> None:
        """Send a request of this broker."""
        asked = _Outstanding(request, reply, api_version)
        self._outstanding[asked] = None
        self._send(asked)

    def _send(self, asked: _Outstanding) -> None:
        asked.attempt += 1
        answered = partial(self._answered, asked, asked.attempt)
        if asked.call is not None:
            (self._clients if self._rules() else self._in_zookeeper).forward(asked.request, asked.call, answered)
            return
        # A controller of the quorum knows no directories of brokers in ZooKeeper mode.
        is_of_kraft = self._rules() and not isinstance(asked.request, AssignReplicasToDirsRequest)
        (self._own if is_of_kraft else self._in_zookeeper).send(asked.request, answered, api_version=asked.api_version)

    def _answered(self, asked: _Outstanding, attempt: int, response: Any) -> None:
        if attempt == asked.attempt and self._outstanding.pop(asked, asked) is None:
            asked.reply(response)

    def forward(self, request: Any, call: Call, reply: Reply) -> None:
        """Have the request of a client decided. A quorum that no longer rules may never answer, so it goes on to the
        controller in ZooKeeper then; that one answers what it has begun."""
        if not self._rules():
            self._in_zookeeper.forward(request, call, reply)
            return
        asked = _Outstanding(request, reply, None, call)
        self._outstanding[asked] = None
        self._send(asked)


class TwoRegistrations:
    """The registration that counts: the one with the controller that rules."""

    def __init__(
        self,
        in_zookeeper: OneRegistration,
        with_quorum: OneRegistration,
        rules: Callable[[], bool],
        failed_directories: Callable[[], Iterable[str]],
        failed: Callable[[str], object],
    ) -> None:
        """``failed`` is called with one line if the broker has to stop."""
        self._in_zookeeper = in_zookeeper
        self._with_quorum = with_quorum
        self._rules = rules
        self._failed_directories = failed_directories
        self._failed = failed

    @property
    def state(self) -> BrokerState:
        """The state of the broker."""
        return self._in_zookeeper.state

    def epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""
        return (self._with_quorum if self._rules() else self._in_zookeeper).epoch()

    def register_again(self) -> None:
        """Nothing: the registrations look after themselves."""

    def report(self) -> None:
        """Report a failed log directory. A KRaft controller does not know which replicas of a broker in ZooKeeper mode
        lie there, so the broker stops, as Kafka's does."""
        if not self._rules():
            self._in_zookeeper.report()
            return
        failed = sorted(self._failed_directories())
        if failed:
            self._failed(f"the log directory {failed[0]} failed while the cluster migrates to KRaft")
