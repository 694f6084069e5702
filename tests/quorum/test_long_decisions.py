"""A long decision is made in steps: others wait, nothing changes in between, and what comes of it is the same."""

from typing import Any

import pytest
from controller_world import ControllerWorld, topic_request
from host_world import HostWorld

from kpybroker.machines.controller.large_batch import LARGE_RECORDS
from kpybroker.runtime.io.scheduler import ManualScheduler, Pieces
from kpywire import error_codes
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest

MANY = 3 * LARGE_RECORDS
TIMEOUT_MS = 5_000


class SlowThread(ManualScheduler):
    """Every step takes longer than a piece should, so a turn does one."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0
        self.in_pieces = Pieces(self.call_soon, self._look).begin

    def _look(self) -> int:
        self.now_ns += 1_000_000
        return self.now_ns

    def turn(self) -> None:
        """Do what was due when the turn began, and nothing that follows from it."""
        for _ in range(len(self._soon)):
            callback, arguments = self._soon.popleft()
            callback(*arguments)


@pytest.fixture
def world() -> HostWorld:
    return HostWorld(scheduler=SlowThread()).start().with_broker()


def create(*topics: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=False)


def delete(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=TIMEOUT_MS)


def partition_count(world: HostWorld, name: str) -> int:
    return len(world.image.topics[name].partitions)


def test_a_decision_in_steps_equals_the_decision_at_once() -> None:
    requests = [
        create(topic_request("large", MANY), topic_request("small"), topic_request("large", 2)),
        create(topic_request("large", MANY), *(topic_request(f"t{number}", 2) for number in range(LARGE_RECORDS))),
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=f"t{number}", count=5, assignments=None) for number in range(60)],
            timeout_ms=TIMEOUT_MS,
            validate_only=False,
        ),
        delete("large", *(f"t{number}" for number in range(0, LARGE_RECORDS, 2)), "none"),
    ]
    quick, slow = HostWorld(), HostWorld(scheduler=SlowThread())
    for each in (quick, slow):
        each.start().with_broker()
    for request in requests:
        assert quick.ask(request) == slow.ask(request)
        assert quick.image.state() == slow.image.state()
    again = slow.again()
    again.start()
    assert again.image.topics == slow.image.topics, "the log says the same"


def test_others_wait_for_a_long_decision_and_see_what_it_wrote(world: HostWorld) -> None:
    first = world.send(create(topic_request("large", MANY)))
    second = world.send(create(topic_request("large", 1)))
    world.scheduler.turn()
    assert (first, second) == ([], [])
    world.scheduler.run()
    assert first[0].topics[0].error_code == error_codes.NONE
    assert second[0].topics[0].error_code == error_codes.TOPIC_ALREADY_EXISTS


def test_nodes_of_the_cluster_go_before_clients(world: HostWorld) -> None:
    order: list[str] = []
    epoch = world.image.brokers[1].epoch
    for name in ("first", "second"):
        world.host.send(create(topic_request(name, MANY)), lambda _answer, name=name: order.append(name))
    world.host.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), lambda _answer: order.append("node"))
    world.scheduler.run()
    assert order == ["first", "node", "second"]


def test_readers_never_see_half_of_a_topic(world: HostWorld) -> None:
    seen = set()
    answers = world.send(create(topic_request("large", MANY), *(topic_request(f"t{n}", 2) for n in range(200))))
    while not answers:
        seen |= {len(topic.partitions) for topic in world.image.topics.values()}
        world.scheduler.turn()
    assert seen == {2, MANY}
    assert len(world.image.topics) == 201


def test_each_part_of_a_long_change_is_published_before_the_client_is_answered(world: HostWorld) -> None:
    notified = len(world.news)
    answers = world.send(create(*(topic_request(f"t{number}", 2) for number in range(200))))
    world.scheduler.run()
    assert answers[0].topics[0].error_code == error_codes.NONE
    news = world.news[notified:]
    assert sum(len(delta.created_topics) for delta in news) == 200
    assert all(len(delta.partitions[topic]) == 2 for delta in news for topic in delta.created_topics)
    assert [one.next_offset for one in news[:-1]] == [one.first_offset for one in news[1:]]


def test_whose_time_is_up_before_its_turn_comes_is_not_begun(world: HostWorld) -> None:
    first = world.send(create(topic_request("large", MANY)))
    late = world.send(create(topic_request("late")))
    world.scheduler._now_ms += TIMEOUT_MS
    world.scheduler.run()
    assert first[0].topics[0].error_code == error_codes.NONE
    assert late[0].topics[0].error_code == error_codes.REQUEST_TIMED_OUT
    assert "late" not in world.image.topics


def test_a_controller_that_ends_in_the_middle_answers_all(world: HostWorld) -> None:
    answers = [world.send(create(topic_request(name, MANY))) for name in ("begun", "waits")]
    world.scheduler.turn()
    world.host.close()
    world.scheduler.run()
    assert [answer.topics[0].error_code for (answer,) in answers] == [error_codes.NOT_CONTROLLER] * 2
    assert "begun" not in world.again().start().image.topics


def test_timers_change_nothing_while_a_decision_is_made() -> None:
    world = ControllerWorld().start_brokers(1)
    request = create(topic_request("large", MANY))
    from kpybroker.machines.controller.controller import FenceStaleBrokers
    from kpybroker.machines.controller.state import ControllerRequest

    steps = world.controller.deliberate(ControllerRequest(object(), request, 7), world.now_ms)
    next(steps)
    world.now_ms += 60_000
    assert not world.controller.decide(FenceStaleBrokers(), world.now_ms).records
    list(steps)
    list(world.controller.settle())
    assert world.controller.decide(FenceStaleBrokers(), world.now_ms).records


def test_the_time_of_day_is_that_of_the_decision() -> None:
    """A delegation token may expire while the request that renews it waits behind a long decision."""
    key = {"delegation.token.secret.key": "a key", "delegation.token.max.lifetime.ms": "1000"}
    world = HostWorld(scheduler=SlowThread(), overrides=key).start().with_broker()
    token = world.ask(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
    world.send(create(topic_request("large", MANY)))
    renewed = world.send(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1))
    world.scheduler._now_ms += 1_001
    world.scheduler.run()
    assert renewed[0].error_code == error_codes.DELEGATION_TOKEN_EXPIRED
