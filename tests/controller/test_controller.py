"""The controller as a machine: every request is answered, replay equals live, and large changes are atomic."""

import re
from importlib import import_module
from random import Random
from typing import Any

import pytest
from controller_world import CLUSTER_ID, ControllerWorld, FixedVersion, topic_request
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.machines.controller.activation import activation_records, bootstrap_level
from kpybroker.machines.controller.controller import (
    Activate,
    Controller,
    ElectPreferredLeaders,
    ElectUncleanLeaders,
    FenceStaleBrokers,
    Idle,
)
from kpybroker.machines.controller.deciders import DECIDERS, decider_of, decides_in_steps
from kpybroker.machines.controller.error_responses import plain_error_response
from kpybroker.machines.controller.migration import Copied, copied
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, StaticSettings
from kpybroker.machines.journal import EventTooLarge, ProducerEpoch
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest
from kpywire import error_codes
from kpywire.codec import encode
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.messages.fetch import FetchRequest
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.metadata_records.abort_transaction_record import AbortTransactionRecord
from kpywire.metadata_records.begin_transaction_record import BeginTransactionRecord
from kpywire.metadata_records.end_transaction_record import EndTransactionRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.no_op_record import NoOpRecord

REQUESTS = sorted(set(DECIDERS) - {Copied.__name__})


def request_class_of(name: str) -> Any:
    if name == ReportingHeartbeatRequest.__name__:
        return ReportingHeartbeatRequest
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name.removesuffix("Request")).lower()
    return getattr(import_module(f"kpywire.messages.{module}"), name)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_can_fail_as_a_whole_at_every_version(name: str) -> None:
    request_class = request_class_of(name)
    request = request_class.__new__(request_class)
    request.__init__(**{field: _plain(request_class, field) for field in request_class.FIELDS})
    for version in request_class.VERSIONS:
        assert encode(plain_error_response(request, version, error_codes.NOT_CONTROLLER), version)


def test_requests_that_are_decided_by_generators_are_decided_in_steps() -> None:
    in_steps = {"CreateTopicsRequest": True, "AllocateProducerIdsRequest": False, FetchRequest.__name__: False}
    for name, expected in in_steps.items():
        request_class = request_class_of(name)
        assert decides_in_steps(request_class.__new__(request_class)) is expected


def test_no_function_decides_what_the_controller_does_not_serve() -> None:
    with pytest.raises(KeyError):
        decider_of(FetchRequest.__name__)
    assert decider_of(Copied.__name__) is copied


def _plain(request_class: Any, field: str) -> Any:
    kind = request_class.FIELDS[field][0]
    if kind.startswith("list"):
        return []
    return {"string": "", "bool": False, "uuid": bytes(16)}.get(kind.split(" ")[0], 0)


def empty_state() -> ControllerState:
    rules = BrokerConfigRules(BrokerConfig.load())
    return ControllerState(
        MetadataImage(CLUSTER_ID), StaticSettings(1), rules, Random(1), lambda: 0, FixedVersion(1), 0
    )


def version_record(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def test_an_empty_log_begins_with_the_bootstrap_records_in_a_transaction() -> None:
    records = activation_records(empty_state(), [version_record(30)])
    assert [type(record) for record in records] == [
        BeginTransactionRecord,
        FeatureLevelRecord,
        EndTransactionRecord,
    ]
    assert records[0].name == "Bootstrap records"
    assert activation_records(empty_state(), [version_record(7)]) == [version_record(7)]
    assert bootstrap_level([version_record(7)]) == 7


def test_with_elr_the_bootstrap_sets_min_insync_replicas() -> None:
    elr = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    records = activation_records(empty_state(), [version_record(30), elr])
    assert (records[3].name, records[3].value) == ("min.insync.replicas", "1")


def test_a_half_written_change_of_an_earlier_controller_is_aborted() -> None:
    state = empty_state()
    delta = MetadataDelta()
    state.image.apply(version_record(30), 0, delta)
    state.image.apply(BeginTransactionRecord(name="t"), 1, delta)
    (record,) = activation_records(state, [])
    assert isinstance(record, AbortTransactionRecord)


def test_an_activation_without_changes_writes_nothing() -> None:
    world = ControllerWorld()
    assert not world.decide(Activate([version_record(30)])).records


def test_idle_writes_a_no_op() -> None:
    assert ControllerWorld().decide(Idle()).records == [NoOpRecord()]


def test_more_records_than_fit_in_a_batch_are_one_transaction() -> None:
    world = ControllerWorld().start_brokers(1)
    for name in ("one", "two"):
        assert world.create(topic_request(name, 6_000))[0].error_code == 0
    written = world.records_of(UnregisterBrokerRequest(broker_id=1))
    assert isinstance(written[0], BeginTransactionRecord)
    assert isinstance(written[-1], EndTransactionRecord)
    assert len(written) == 12_003


def test_a_request_that_would_write_too_much_is_refused() -> None:
    world = ControllerWorld().start_brokers(1)
    (result,) = world.create(topic_request("wide", 10_000))
    assert (result.error_code, result.error_message) == (
        error_codes.POLICY_VIOLATION,
        "Unable to perform excessively large batch operation.",
    )
    assert world.create(topic_request("wide", 9_999))[0].error_code == 0


def test_a_batch_that_is_too_large_is_answered() -> None:
    world = ControllerWorld()
    ticket = object()
    message = CreateTopicsRequest(topics=[topic_request("orders")], timeout_ms=1, validate_only=False)
    effects = world.decide(EventTooLarge(ControllerRequest(ticket, message, 7)))
    ((answered, response),) = effects.replies
    assert answered is ticket
    assert response.topics[0].error_code == error_codes.RECORD_LIST_TOO_LARGE
    assert not world.decide(EventTooLarge(Idle())).replies


def test_the_metadata_log_has_no_transactional_producers() -> None:
    controller = Controller(empty_state())
    with pytest.raises(InvalidMetadata):
        controller.apply(NoOpRecord(), 0, ProducerEpoch(5, 1))
    with pytest.raises(InvalidMetadata):
        controller.apply_marker(ProducerEpoch(5, 1), 0, commit=True)


def test_an_unknown_event_is_a_defect() -> None:
    with pytest.raises(TypeError):
        Controller(empty_state()).decide(object(), 0)


class ControllerMachine(RuleBasedStateMachine):
    """Random requests; the log replayed into a new image must give the controller's own."""

    def __init__(self) -> None:
        super().__init__()
        self.world = ControllerWorld().start_brokers(1, 2)
        self.replayed = MetadataImage(CLUSTER_ID)

    names = st.sampled_from(["a", "b.c", "b_c", "d"])
    brokers = st.integers(1, 4)

    @rule(name=names, partitions=st.integers(-1, 3), factor=st.integers(-1, 3))
    def create(self, name: str, partitions: int, factor: int) -> None:
        self.world.create(topic_request(name, partitions, factor, configs={"unclean.leader.election.enable": "true"}))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.world.send(DeleteTopicsRequest(topics=[], topic_names=[name], timeout_ms=1), 5)

    @rule(name=names, count=st.integers(0, 6))
    def widen(self, name: str, count: int) -> None:
        topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
        self.world.send(CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=False))

    @rule(broker=brokers, incarnation=st.binary(min_size=16, max_size=16))
    def register(self, broker: int, incarnation: bytes) -> None:
        self.world.send(self.world.registration(broker, incarnation_id=incarnation))

    @rule(broker=brokers, fence=st.booleans(), stop=st.booleans(), behind=st.integers(0, 3))
    def beat(self, broker: int, fence: bool, stop: bool, behind: int) -> None:
        if broker in self.world.image.brokers:
            stop = stop or self.world.image.brokers[broker].in_controlled_shutdown  # nobody takes that back
            offset = len(self.world.log) - 1 - behind
            self.world.heartbeat(broker, want_fence=fence, want_shut_down=stop, current_metadata_offset=offset)

    @rule(broker=brokers)
    def unregister(self, broker: int) -> None:
        self.world.send(UnregisterBrokerRequest(broker_id=broker))

    @rule(passed_ms=st.integers(0, 20_000))
    def wait(self, passed_ms: int) -> None:
        self.world.now_ms += passed_ms
        self.world.decide(FenceStaleBrokers())

    @rule(event=st.sampled_from([ElectPreferredLeaders(), ElectUncleanLeaders(), Idle()]))
    def timer(self, event: Any) -> None:
        self.world.decide(event)

    @invariant()
    def replay_equals_live(self) -> None:
        for offset in range(self.replayed.next_offset, len(self.world.log)):
            self.replayed.apply(self.world.log[offset], offset, MetadataDelta())
        assert self.replayed.state() == self.world.image.state()

    @invariant()
    def no_broker_leads_that_may_not(self) -> None:
        for topic in self.world.image.topics.values():
            for partition in topic.partitions.values():
                if partition.leader >= 0:
                    assert self.world.state.is_active(partition.leader)
                    assert partition.leader in partition.isr
                assert partition.isr
                assert set(partition.isr) <= set(partition.replicas)

    @invariant()
    def names_do_not_collide(self) -> None:
        unified = [name.replace(".", "_") for name in self.world.image.topics]
        assert len(set(unified)) == len(unified)


ControllerMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestControllerUnderRandomRequests = ControllerMachine.TestCase
