"""A broker that migrates: its requests and its epoch go to the controller that rules."""

from collections.abc import Callable
from typing import Any

from kpybroker.hosts.lifecycle import BrokerState
from kpybroker.hosts.zookeeper.broker.two_controllers import TwoControllers, TwoRegistrations
from kpywire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest


class Way:
    """A way to one controller, which answers when the test wants."""

    kraft_version = 0
    local_state: Any = None

    def __init__(self, controller_id: int) -> None:
        self.controller_id = controller_id
        self.asked: list[tuple[Any, Callable[[Any], object]]] = []

    def send(self, request: Any, reply: Callable[[Any], object], *, api_version: int | None = None) -> None:
        assert api_version is None
        self.asked.append((request, reply))

    def forward(self, request: Any, _call: Any, reply: Callable[[Any], object]) -> None:
        self.asked.append((request, reply))


class Registered:
    """One registration."""

    def __init__(self, epoch: int) -> None:
        self.state = BrokerState.RUNNING
        self.reports = 0
        self._epoch = epoch

    def epoch(self) -> int:
        return self._epoch

    def report(self) -> None:
        self.reports += 1


def test_requests_without_an_answer_go_to_the_controller_that_rules_now() -> None:
    is_ruled = False
    old, own, clients = Way(1), Way(3000), Way(3000)
    both = TwoControllers(old, own, clients, lambda: is_ruled)  # type: ignore[arg-type]
    answers: list[str] = []
    both.send("first", answers.append)
    both.send("second", answers.append)
    old.asked[0][1]("done")
    assert (both.controller_id, answers) == (1, ["done"])
    is_ruled = True
    both.look()
    both.look()
    assert [request for request, _ in own.asked] == ["second"]
    old.asked[1][1]("too late")
    own.asked[0][1]("by the quorum")
    own.asked[0][1]("twice")
    assert (both.controller_id, answers) == (3000, ["done", "by the quorum"])
    both.forward("of a client", object(), answers.append)  # type: ignore[arg-type]
    assert [request for request, _ in clients.asked] == ["of a client"]


def test_a_clients_request_without_an_answer_of_the_quorum_goes_to_the_controller_in_zookeeper() -> None:
    is_ruled = True
    old, own, clients = Way(1), Way(3000), Way(3000)
    both = TwoControllers(old, own, clients, lambda: is_ruled)  # type: ignore[arg-type]
    both.look()
    answers: list[str] = []
    call: Any = object()
    both.forward("first", call, answers.append)
    both.forward("second", call, answers.append)
    clients.asked[0][1]("done")
    is_ruled = False  # the way back: nobody of the quorum is left
    both.look()
    assert [request for request, _ in old.asked] == ["second"]
    is_ruled = True
    both.look()
    assert len(clients.asked) == 2  # what the controller in ZooKeeper has begun, it answers
    clients.asked[1][1]("too late")
    old.asked[0][1]("in ZooKeeper")
    assert answers == ["done", "in ZooKeeper"]


def test_the_quorum_does_not_learn_of_directories() -> None:
    old, own = Way(1), Way(3000)
    both = TwoControllers(old, own, own, lambda: True)  # type: ignore[arg-type]
    both.send(AssignReplicasToDirsRequest(broker_id=1, broker_epoch=1, directories=[]), lambda _answer: None)
    assert (len(old.asked), len(own.asked)) == (1, 0)


def test_the_epoch_is_that_of_the_registration_that_counts() -> None:
    is_ruled, failures = False, []
    zookeeper, quorum = Registered(68), Registered(301)
    both = TwoRegistrations(zookeeper, quorum, lambda: is_ruled, lambda: ["/b", "/a"], failures.append)
    both.report()
    assert (both.epoch(), zookeeper.reports, failures) == (68, 1, [])
    is_ruled = True
    both.report()
    assert (both.epoch(), zookeeper.reports) == (301, 1)
    assert failures == ["the log directory /a failed while the cluster migrates to KRaft"]
