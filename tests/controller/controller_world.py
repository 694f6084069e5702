"""A controller without a disk: decisions are applied at once, as if everything were committed."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.machines.controller.controller import Controller
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, StaticSettings
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.journal import Effects
from kpybroker.machines.metadata import features
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Partition
from kpywire import error_codes
from kpywire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kpywire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord

CLUSTER_ID = "controller-world"


def directory_of(broker_id: int, number: int = 0) -> bytes:
    return bytes([200, broker_id, number]) * 5 + b"."


def topic_request(
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    assignments: Mapping[int, Sequence[int]] | None = None,
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas))
            for number, replicas in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )


class FixedVersion:
    """``kraft.version`` of no quorum: what it was asked to be, or why it does not change."""

    def __init__(self, level: int, refusal: str | None = None) -> None:
        self.level = level
        self.refusal = refusal
        self.asked: list[tuple[int, bool]] = []

    def upgrade(self, level: int, *, validate_only: bool) -> None:
        """Remember what was asked for."""
        if self.refusal is not None:
            raise KafkaError(error_codes.INVALID_UPDATE_VERSION, self.refusal)
        self.asked.append((level, validate_only))
        if not validate_only:
            self.level = level


class ControllerWorld:
    """An active controller of node 1 whose log is a list of records."""

    def __init__(self, level: int = 30, extra_features: Mapping[str, int] | None = None, **settings: Any) -> None:
        self.now_ms = 1_000_000
        self.log: list[Any] = []
        image = MetadataImage(CLUSTER_ID)
        rules = BrokerConfigRules(BrokerConfig.load())
        self.kraft_version = FixedVersion(1)
        self.state = ControllerState(
            image,
            StaticSettings(1, **settings),
            rules,
            Random(4),
            lambda: len(self.log),
            self.kraft_version,
            self.now_ms,
        )
        self.controller = Controller(self.state)
        for name, feature_level in {"metadata.version": level, **(extra_features or {})}.items():
            self.write([FeatureLevelRecord(name=name, feature_level=feature_level)])

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def write(self, records: Sequence[Any]) -> None:
        for record in records:
            self.controller.apply(record, len(self.log))
            self.log.append(record)

    def decide(self, event: Any) -> Effects:
        """Decide, and let it be committed at once, with what follows from it."""
        effects = self.controller.decide(event, self.now_ms)
        self.write(effects.records)
        if effects.then is not None:
            self.decide(effects.then)
        return effects

    def send(self, message: Any, version: int | None = None) -> Any:
        """The response to a request, whose records are applied."""
        version = type(message).VERSIONS[-1] if version is None else version
        ticket = object()
        effects = self.decide(ControllerRequest(ticket, message, version))
        ((answered, response),) = effects.replies
        assert answered is ticket
        assert getattr(response, "throttle_time_ms", 0) == 0, "no quota is set"
        return response

    def records_of(self, message: Any, version: int | None = None) -> list[Any]:
        """The records that a request writes; they are applied."""
        before = len(self.log)
        self.send(message, version)
        return self.log[before:]

    # Brokers.

    def registration(self, broker_id: int, **fields: Any) -> BrokerRegistrationRequest:
        supported = [
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in features.SUPPORTED.items()
        ]
        return BrokerRegistrationRequest(
            **{
                "broker_id": broker_id,
                "cluster_id": CLUSTER_ID,
                "incarnation_id": bytes([broker_id]) * 16,
                "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9092, security_protocol=0)],
                "features": supported,
                "rack": None,
                "log_dirs": [directory_of(broker_id)],
                **fields,
            }
        )

    def register(self, broker_id: int, **fields: Any) -> int:
        """Register a broker; its epoch."""
        response = self.send(self.registration(broker_id, **fields))
        assert response.error_code == 0
        return int(response.broker_epoch)

    def heartbeat(self, broker_id: int, **fields: Any) -> Any:
        """A heartbeat of a broker that has read everything."""
        return self.send(
            BrokerHeartbeatRequest(
                **{
                    "broker_id": broker_id,
                    "broker_epoch": self.image.brokers[broker_id].epoch,
                    "current_metadata_offset": len(self.log) - 1,
                    "want_fence": False,
                    "want_shut_down": False,
                    **fields,
                }
            )
        )

    def start_brokers(self, *broker_ids: int, **fields: Any) -> "ControllerWorld":
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            self.register(broker_id, **fields)
            assert not self.heartbeat(broker_id).is_fenced
        return self

    def pass_time(self, passed_ms: int, *alive: int) -> None:
        """Let time pass while some brokers keep sending heartbeats."""
        for _ in range(10):
            self.now_ms += passed_ms // 10
            for broker_id in alive:
                self.heartbeat(broker_id)

    # Topics.

    def create(self, *topics: CreatableTopic, validate_only: bool = False) -> list[CreatableTopicResult]:
        request = CreateTopicsRequest(topics=list(topics), timeout_ms=1_000, validate_only=validate_only)
        results: list[CreatableTopicResult] = self.send(request).topics
        return results

    def created(self, name: str, assignments: Mapping[int, Sequence[int]] | None = None, **configs: str) -> bytes:
        """The id of a new topic."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        (result,) = self.create(topic_request(name, assignments=assignments, configs=dotted))
        assert result.error_code == 0, result
        return bytes(result.topic_id)

    def partition(self, name: str, number: int = 0) -> Partition:
        return self.image.topics[name].partitions[number]
