"""AlterConfigs, IncrementalAlterConfigs, AllocateProducerIds and UpdateFeatures."""

from typing import Any

import pytest
from controller_world import ControllerWorld

from kpybroker.machines.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kpywire import error_codes
from kpywire.messages import alter_configs as legacy
from kpywire.messages import incremental_alter_configs as incremental
from kpywire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.metadata_records.clear_elr_record import ClearElrRecord
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.producer_ids_record import ProducerIdsRecord

SET, DELETE, APPEND, SUBTRACT = range(4)
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld().start_brokers(1)
    world.created("orders")
    return world


def change(
    world: ControllerWorld, *operations: tuple[str, int, str | None], kind: int = TOPIC_RESOURCE, name: str = "orders"
) -> tuple[int, str | None]:
    configs = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    ]
    resources = [incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    (response,) = world.send(request).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response.error_code, response.error_message


def replace(world: ControllerWorld, configs: dict[str, str | None], name: str = "orders", **fields: Any) -> Any:
    resource = legacy.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE,
        resource_name=name,
        configs=[legacy.AlterableConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = legacy.AlterConfigsRequest(resources=[resource], validate_only=fields.get("validate_only", False))
    (response,) = world.send(request).responses
    return response.error_code, response.error_message


def test_single_configs_are_set_and_deleted(world: ControllerWorld) -> None:
    assert change(world, ("retention.ms", SET, "5"), ("segment.ms", SET, "6")) == (0, None)
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"retention.ms": "5", "segment.ms": "6"}
    assert change(world, ("retention.ms", DELETE, None)) == (0, None)
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"segment.ms": "6"}


def test_lists_are_edited_starting_from_their_default(world: ControllerWorld) -> None:
    assert change(world, ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"cleanup.policy": "delete,compact"}
    assert change(world, ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert change(world, ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"cleanup.policy": "compact"}


def test_unchanged_configs_are_written_for_brokers_only(world: ControllerWorld) -> None:
    change(world, ("retention.ms", SET, "5"))
    before = len(world.log)
    assert change(world, ("retention.ms", SET, "5")) == (0, None)
    assert len(world.log) == before
    for _ in range(2):
        change(world, ("log.cleaner.threads", SET, "2"), kind=BROKER_RESOURCE, name="")
    assert [type(record) for record in world.log[before:]] == [ConfigRecord] * 2


def test_all_configs_are_replaced_at_once(world: ControllerWorld) -> None:
    change(world, ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))
    assert replace(world, {"retention.ms": "7"}) == (0, None)
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"retention.ms": "7"}
    assert replace(world, {"retention.ms": "8"}, validate_only=True) == (0, None)
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("operation", "kind", "name", "code", "message"),
    [
        (("retention.ms", SET, "x"), 2, "orders", error_codes.INVALID_CONFIG, None),
        (("nope", SET, "1"), 2, "orders", error_codes.INVALID_CONFIG, "Unknown topic config name: nope"),
        (
            ("retention.ms", APPEND, "1"),
            2,
            "orders",
            error_codes.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (("a", 9, "1"), 2, "orders", error_codes.INVALID_REQUEST, "Unknown operations type 9"),
        (
            ("retention.ms", SET, "1"),
            2,
            "none",
            error_codes.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'none' does not exist.",
        ),
        (("retention.ms", SET, "1"), 2, "", error_codes.INVALID_REQUEST, "Default topic resources are not allowed."),
        (("retention.ms", SET, "1"), 77, "x", error_codes.UNSUPPORTED_VERSION, "Unknown resource type 77."),
        (("a", SET, "1"), 8, "1", error_codes.INVALID_REQUEST, "Unknown resource type BROKER_LOGGER"),
        (("a", SET, "1"), 4, "7", error_codes.BROKER_ID_NOT_REGISTERED, "No node with id 7 found."),
        (("a", SET, "1"), 4, "x", error_codes.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."),
        (("a", SET, "1"), 4, "-1", error_codes.INVALID_REQUEST, "Invalid negative broker ID."),
        (("a", SET, "1"), 32, "", error_codes.INVALID_REQUEST, "Default group resources are not allowed."),
        (
            ("retention.ms", SET, "1" * 32768),
            2,
            "orders",
            error_codes.INVALID_CONFIG,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
    ],
)
def test_refusals_are_worded_as_kafka_words_them(
    world: ControllerWorld, operation: tuple[str, int, str], kind: int, name: str, code: int, message: str | None
) -> None:
    before = len(world.log)
    answer = change(world, operation, kind=kind, name=name)
    assert answer[0] == code
    assert message is None or answer[1] == message
    assert len(world.log) == before


def test_resources_of_one_request_succeed_and_fail_by_themselves(world: ControllerWorld) -> None:
    world.created("other")

    def resource(name: str, value: str) -> incremental.AlterConfigsResource:
        config = incremental.AlterableConfig(name="retention.ms", config_operation=SET, value=value)
        return incremental.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configs=[config])

    resources = [resource("orders", "1"), resource("other", "x"), resource("twice", "1"), resource("twice", "2")]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    codes = {answer.resource_name: answer.error_code for answer in world.send(request).responses}
    assert codes == {
        "orders": error_codes.NONE,
        "other": error_codes.INVALID_CONFIG,
        "twice": error_codes.INVALID_REQUEST,
    }
    assert world.image.configs_of(TOPIC_RESOURCE, "orders") == {"retention.ms": "1"}
    assert not world.image.configs_of(TOPIC_RESOURCE, "other")


def test_min_insync_replicas_forgets_eligibility_and_is_one_for_all_brokers_with_elr() -> None:
    world = ControllerWorld(extra_features={"eligible.leader.replicas.version": 1}).start_brokers(1)
    world.created("orders")
    before = len(world.log)
    assert change(world, ("min.insync.replicas", SET, "2")) == (0, None)
    assert world.log[before + 1] == ClearElrRecord(topic_name="orders")
    for name, operation in (("1", SET), ("", DELETE)):
        answer = change(world, ("min.insync.replicas", operation, "2"), kind=BROKER_RESOURCE, name=name)
        assert answer[0] == error_codes.INVALID_CONFIG


def test_blocks_of_producer_ids_follow_one_another(world: ControllerWorld) -> None:
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch)
    for first in (0, 1_000, 2_000):
        response = world.send(request)
        assert (response.error_code, response.producer_id_start, response.producer_id_len) == (0, first, 1_000)
        assert world.log[-1].next_producer_id == first + 1_000
    stale = world.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=0))
    assert stale.error_code == error_codes.STALE_BROKER_EPOCH


def test_producer_ids_end_before_they_overflow(world: ControllerWorld) -> None:
    last = 2**63 - 1 - 999
    world.write([ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=last)])
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=world.image.brokers[1].epoch)
    assert world.send(request).error_code == error_codes.UNKNOWN_SERVER_ERROR


def update(
    world: ControllerWorld, name: str, level: int, kind: int = UPGRADE, version: int = 2, validate_only: bool = False
) -> Any:
    key = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[key], validate_only=validate_only)
    return world.send(request, version)


def test_metadata_version_is_raised_when_every_node_supports_it() -> None:
    world = ControllerWorld(level=29).start_brokers(1)
    assert update(world, "metadata.version", 30, validate_only=True).error_code == error_codes.NONE
    assert world.image.metadata_version == 29
    assert update(world, "metadata.version", 30).error_code == error_codes.NONE
    assert world.image.metadata_version == 30
    assert isinstance(world.log[-1], FeatureLevelRecord)


FAILED = "The update failed for all features since the following feature had an error: "


@pytest.mark.parametrize(
    ("name", "level", "kind", "message"),
    [
        (
            "metadata.version",
            29,
            UPGRADE,
            (
                "Invalid update version 29 for feature metadata.version. Can't downgrade the version of this feature "
                "without setting the upgrade type to either safe or unsafe downgrade."
            ),
        ),
        (
            "metadata.version",
            29,
            SAFE_DOWNGRADE,
            (
                "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade "
                "because it might delete metadata information."
            ),
        ),
        (
            "metadata.version",
            29,
            UNSAFE_DOWNGRADE,
            (
                "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is not supported in "
                "this version."
            ),
        ),
        (
            "metadata.version",
            34,
            UPGRADE,
            "Invalid update version 34 for feature metadata.version. Local controller 1 only supports versions 7-33",
        ),
        (
            "nope",
            1,
            UPGRADE,
            "Invalid update version 1 for feature nope. Local controller 1 does not support this feature.",
        ),
        (
            "metadata.version",
            -1,
            UPGRADE,
            "Invalid update version -1 for feature metadata.version. A feature version cannot be less than 0.",
        ),
        (
            "metadata.version",
            30,
            9,
            (
                "Invalid update version 30 for feature metadata.version. The controller does not support the given "
                "upgrade type."
            ),
        ),
        (
            "kraft.version",
            0,
            SAFE_DOWNGRADE,
            "Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature.",
        ),
    ],
)
def test_updates_are_refused_as_kafka_refuses_them(
    world: ControllerWorld, name: str, level: int, kind: int, message: str
) -> None:
    before = len(world.log)
    response = update(world, name, level, kind)
    assert (response.error_code, response.error_message) == (error_codes.INVALID_UPDATE_VERSION, FAILED + message)
    assert len(world.log) == before


def test_a_level_that_a_broker_lacks_is_refused() -> None:
    world = ControllerWorld(level=29)
    features = [
        type(feature)(
            name=feature.name,
            min_supported_version=feature.min_supported_version,
            max_supported_version=min(feature.max_supported_version, 29),
        )
        for feature in world.registration(2).features
    ]
    world.register(2, features=features)
    response = update(world, "metadata.version", 30)
    assert response.error_message.endswith("Broker 2 only supports versions 7-29")


def test_old_versions_list_the_features_they_changed(world: ControllerWorld) -> None:
    response = update(world, "kraft.version", 1, version=1)
    assert [(result.feature, result.error_code) for result in response.results] == [("kraft.version", 0)]
    assert update(world, "kraft.version", 1).results == []
    allowed = FeatureUpdateKey(feature="metadata.version", max_version_level=29, allow_downgrade=True)
    request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[allowed], validate_only=False)
    assert (
        "without setting the upgrade type" in world.send(request, 0).error_message
    )  # as in Kafka, the flag is ignored
    refused = update(world, "nope.version", 0, SAFE_DOWNGRADE)
    assert refused.error_message.endswith(
        "Invalid update version 0 for feature nope.version. Feature nope.version not found."
    )
