"""Requests of brokers and controllers to a controller, by API: a generator for each, which hears the answers.

The same generator runs against each of two controllers, so that what one
has made up (epochs, ids) is its own in what follows.
Nothing here changes what the only broker and the only voter are.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from kpybroker.machines.metadata.features import SUPPORTED
from kpywire import api
from kpywire.messages import (
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
)
from kpywire.messages.delete_topics import DeleteTopicsRequest
from kpywire.uuid import ONE_UUID, ZERO_UUID
from support.envelopes import envelope_of
from support.quorum_requests import begin_of, end_of, snapshot_of, update_of, vote_of
from support.raw_requests import UNKNOWN_ID

NEW, NO_SUCH_NODE = 77, 99
"""A broker that registers, and one that never does."""
REGISTERED = 177
"""The first of the brokers by which registrations are tried."""
FAR = 1 << 40
FEATURES = {name: (levels.lowest, levels.highest) for name, levels in SUPPORTED.items()}
DIRECTORY, OTHER_DIRECTORY = bytes(range(50, 66)), bytes(range(70, 86))
OWN_DIRECTORIES = bytes(range(90, 106)), bytes(range(110, 126))
"""The directories of `REGISTERED`."""


class Facts(NamedTuple):
    """The facts that a controller reports about itself, and the id of a topic with one partition."""

    cluster_id: str
    epoch: int
    topic_id: bytes


Asking = Generator[Any, Any, None]
"""Yields requests, and is sent the answer to each."""


def registration(facts: Facts, broker_id: int = NEW, **changes: Any) -> broker_registration.BrokerRegistrationRequest:
    listeners = [
        broker_registration.Listener(name=name, host="127.0.0.1", port=port, security_protocol=0)
        for name, port in changes.pop("listeners", {"PLAINTEXT": 1}).items()
    ]
    features = [
        broker_registration.Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
        for name, (lowest, highest) in changes.pop("features", FEATURES).items()
    ]
    whole = {
        "cluster_id": facts.cluster_id,
        "incarnation_id": bytes(range(16)),
        "listeners": listeners,
        "features": features,
        "rack": None,
        "log_dirs": [DIRECTORY],
        **changes,
    }
    return broker_registration.BrokerRegistrationRequest(broker_id=broker_id, **whole)


def _registration(facts: Facts, version: int) -> Asking:
    def own(broker_id: int = REGISTERED, **changes: Any) -> broker_registration.BrokerRegistrationRequest:
        return registration(facts, broker_id, **{"log_dirs": [OWN_DIRECTORIES[0]], **changes})

    yield own(cluster_id="another")
    yield own(1)
    yield own(-1)
    yield own(listeners={})
    yield own(features={})
    for highest in (8, 30, 32):
        yield own(features={**FEATURES, "metadata.version": (7, highest)})
    yield own(features={**FEATURES, "share.version": (0, 1)})
    yield own(features={**FEATURES, "no.such.feature": (1, 2)})
    if version >= 2:
        yield own(log_dirs=[])
        yield own(log_dirs=[OWN_DIRECTORIES[0]] * 2)
        yield own(log_dirs=[ZERO_UUID])
    yield own()
    yield own()
    yield own(incarnation_id=bytes(range(1, 17)), rack="r")
    yield own(REGISTERED + 1, log_dirs=[OWN_DIRECTORIES[0]])
    yield own(REGISTERED + 2, previous_broker_epoch=5, log_dirs=[OWN_DIRECTORIES[1]])


def _heartbeat(facts: Facts, version: int) -> Asking:
    made = yield registration(facts)

    def beating(broker_id: int = NEW, **changes: Any) -> broker_heartbeat.BrokerHeartbeatRequest:
        whole = {"broker_epoch": made.broker_epoch, "current_metadata_offset": 0, "want_fence": True, **changes}
        return broker_heartbeat.BrokerHeartbeatRequest(broker_id=broker_id, want_shut_down=False, **whole)

    yield beating(NO_SUCH_NODE)
    yield beating(-1)
    for epoch in (made.broker_epoch - 1, made.broker_epoch + 1, -1):
        yield beating(broker_epoch=epoch)
    yield beating()
    yield beating(want_fence=False)
    yield beating(want_fence=False, current_metadata_offset=FAR)
    if version >= 1:
        yield beating(offline_log_dirs=[DIRECTORY], current_metadata_offset=FAR)
        yield beating(offline_log_dirs=[OTHER_DIRECTORY], current_metadata_offset=FAR)
    last = beating(current_metadata_offset=FAR)
    last.want_shut_down = True
    yield last


def _producer_ids(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    made = yield registration(facts)
    for broker_id, epoch in (
        (NO_SUCH_NODE, 0),
        (1, -1),
        (-1, -1),
        (NEW, made.broker_epoch + 1),
        (NEW, made.broker_epoch),
    ):
        yield allocate_producer_ids.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)


def _controller_registration(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    def asking(
        features: Mapping[str, tuple[int, int]] = FEATURES, listeners: tuple[str, ...] = ("CONTROLLER",)
    ) -> controller_registration.ControllerRegistrationRequest:
        return controller_registration.ControllerRegistrationRequest(
            controller_id=NEW,
            zk_migration_ready=False,
            incarnation_id=bytes(range(16)),
            listeners=[
                controller_registration.Listener(name=name, host="127.0.0.1", port=1, security_protocol=0)
                for name in listeners
            ],
            features=[
                controller_registration.Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in features.items()
            ],
        )

    yield asking()
    yield asking()
    yield asking(listeners=())
    yield asking(features={})


def _assignments(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    made = yield registration(facts)

    def asking(
        broker_id: int, epoch: int, *places: tuple[bytes, bytes, list[int]]
    ) -> assign_replicas_to_dirs.AssignReplicasToDirsRequest:
        directories = [
            assign_replicas_to_dirs.AssignReplicasToDirsRequestDirectoryData(
                id=directory,
                topics=[
                    assign_replicas_to_dirs.AssignReplicasToDirsRequestTopicData(
                        topic_id=topic_id,
                        partitions=[
                            assign_replicas_to_dirs.AssignReplicasToDirsRequestPartitionData(partition_index=index)
                            for index in indexes
                        ],
                    )
                ],
            )
            for directory, topic_id, indexes in places
        ]
        return assign_replicas_to_dirs.AssignReplicasToDirsRequest(
            broker_id=broker_id, broker_epoch=epoch, directories=directories
        )

    epoch, mine = made.broker_epoch, facts.topic_id
    yield asking(NO_SUCH_NODE, epoch, (DIRECTORY, mine, [0]))
    yield asking(NEW, epoch + 1, (DIRECTORY, mine, [0]))
    yield asking(NEW, epoch)
    yield asking(NEW, epoch, (DIRECTORY, mine, [0, 5, -1]), (OTHER_DIRECTORY, UNKNOWN_ID, [0]))
    yield asking(NEW, epoch, (ZERO_UUID, mine, [0]), (ONE_UUID, mine, [0]))


def _alterations(facts: Facts, version: int) -> Asking:
    made = yield registration(facts)

    def asking(
        broker_id: int, epoch: int, topic_id: bytes = facts.topic_id, index: int = 0, **changes: Any
    ) -> alter_partition.AlterPartitionRequest:
        wanted = alter_partition.AlterPartitionRequestPartitionData(
            partition_index=index, **{"leader_epoch": 0, "partition_epoch": 0, **changes}
        )
        if version >= 3:
            wanted.new_isr_with_epochs = [alter_partition.BrokerState(broker_id=1, broker_epoch=-1)]
        else:
            wanted.new_isr = [1]
        topic = alter_partition.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[wanted])
        return alter_partition.AlterPartitionRequest(broker_id=broker_id, broker_epoch=epoch, topics=[topic])

    epoch = made.broker_epoch
    yield asking(NO_SUCH_NODE, epoch)
    yield asking(1, -1)
    yield asking(NEW, epoch + 1)
    yield asking(NEW, epoch)
    yield asking(NEW, epoch, UNKNOWN_ID)
    yield asking(NEW, epoch, index=9)
    yield asking(NEW, epoch, leader_epoch=5)
    yield asking(NEW, epoch, leader_epoch=-1)
    yield asking(NEW, epoch, partition_epoch=5)


def _votes(facts: Facts, version: int) -> Asking:
    for changes in ({}, {"cluster_id": "another"}, {"topic": "t"}, {"partition": 1}, {"replica_id": -1}):
        yield vote_of(facts.epoch, pre_vote=version >= 2, **changes)
    yield vote_of(facts.epoch - 1, pre_vote=version >= 2)
    if version >= 1:
        yield vote_of(facts.epoch, pre_vote=version >= 2, voter_id=5)
        yield vote_of(facts.epoch, pre_vote=version >= 2, voter_directory_id=DIRECTORY)


def _beginnings(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    yield begin_of(facts.epoch, 1, cluster_id="another")
    yield begin_of(facts.epoch - 1, 1)
    yield begin_of(facts.epoch, -1)
    yield begin_of(facts.epoch, 1, topic="t")


def _endings(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    yield end_of(facts.epoch, 1, cluster_id="another")
    yield end_of(facts.epoch - 1, 1)
    yield end_of(facts.epoch, 1, topic="t")


def _snapshots(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    yield snapshot_of(facts.epoch, 0, 0, cluster_id="another")


def _updates(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    yield update_of(facts.epoch, NO_SUCH_NODE, cluster_id="another")
    yield update_of(facts.epoch, NO_SUCH_NODE)
    yield update_of(facts.epoch, -1)
    yield update_of(facts.epoch - 1, 1)
    yield update_of(facts.epoch + 1, 1)
    yield update_of(facts.epoch, 1)


def _envelopes(facts: Facts, version: int) -> Asking:  # noqa: ARG001
    yield envelope_of(DeleteTopicsRequest(timeout_ms=1000, topics=[]), 6)


PATHS: Mapping[int, Callable[[Facts, int], Asking]] = {
    api.BROKER_REGISTRATION: _registration,
    api.BROKER_HEARTBEAT: _heartbeat,
    api.ALLOCATE_PRODUCER_IDS: _producer_ids,
    api.CONTROLLER_REGISTRATION: _controller_registration,
    api.ASSIGN_REPLICAS_TO_DIRS: _assignments,
    api.ALTER_PARTITION: _alterations,
    api.VOTE: _votes,
    api.BEGIN_QUORUM_EPOCH: _beginnings,
    api.END_QUORUM_EPOCH: _endings,
    api.FETCH_SNAPSHOT: _snapshots,
    api.UPDATE_RAFT_VOTER: _updates,
    api.ENVELOPE: _envelopes,
}
"""By api key: of those that only a controller's listener serves."""
