"""UpdateFeatures: raise or lower the level of a finalised feature (KIP-584), as far as every node supports it.

``kraft.version`` lives in the quorum's control records: the quorum itself raises it, and never lowers it.
"""

from collections.abc import Mapping

from kpybroker.machines.controller.configs import one_min_insync_replicas
from kpybroker.machines.controller.state import LAST_OF_STEP, STEP, ControllerRequest, ControllerState, Steps
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import features, metadata_version
from kpybroker.machines.metadata.broker import FeatureRange
from kpybroker.machines.metadata.image import ELR_VERSION, KRAFT_VERSION
from kpywire import error_codes
from kpywire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.no_op_record import NoOpRecord

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
DISABLED = FeatureRange(0, 0)


def update_features(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Make all changes of features that a request asks for, or none. As in Kafka, version 0 of the request can only
    upgrade."""
    message: UpdateFeaturesRequest = request.message
    records: list[FeatureLevelRecord | NoOpRecord | ConfigRecord] = []
    updates: dict[str, FeatureUpdateKey] = {}
    for number, update in enumerate(message.feature_updates):
        updates[update.feature] = update
        if number % STEP == LAST_OF_STEP:
            yield
    proposed = {**state.image.finalized_features, **{name: each.max_version_level for name, each in updates.items()}}
    for update in updates.values():
        try:
            record = _update(state, update, proposed, validate_only=message.validate_only)
        except KafkaError as error:
            text = f"The update failed for all features since the following feature had an error: {error.message}"
            return [], UpdateFeaturesResponse(throttle_time_ms=0, error_code=error.code, error_message=text)
        if record is not None:
            records.append(record)
    if proposed.get(ELR_VERSION, 0) > 0 and ELR_VERSION in updates:
        records = [*one_min_insync_replicas(state), *records]
    results = []
    if request.api_version <= 1:
        results = [
            UpdatableFeatureResult(
                error_code=error_codes.NONE, feature=update.feature, error_message=error_codes.message(error_codes.NONE)
            )
            for update in message.feature_updates
        ]
    response = UpdateFeaturesResponse(
        throttle_time_ms=0, error_code=error_codes.NONE, error_message=None, results=results
    )
    return [] if message.validate_only else records, response


def _refuse(name: str, level: int, reason: str) -> KafkaError:
    text = f"Invalid update version {level} for feature {name}. {reason}"
    return KafkaError(error_codes.INVALID_UPDATE_VERSION, text)


def _update(
    state: ControllerState, update: FeatureUpdateKey, proposed: Mapping[str, int], *, validate_only: bool
) -> FeatureLevelRecord | NoOpRecord | None:
    """Change one feature. ``proposed`` are the levels of all features once the whole request is done."""
    name, level, upgrade_type = update.feature, update.max_version_level, update.upgrade_type
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refuse(name, level, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refuse(name, level, "A feature version cannot be less than 0.")
    reason = _why_unsupported(state, name, level)
    if reason is None and name not in features.SUPPORTED:
        reason = f"Feature {name} not found."
    if reason is not None:
        raise _refuse(name, level, reason)
    current = state.finalized_level(name)
    if level < current and upgrade_type == UPGRADE:
        raise _refuse(
            name,
            level,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and upgrade_type != UPGRADE:
        raise _refuse(name, level, "Can't downgrade to a newer version.")
    if name == metadata_version.FEATURE_NAME:
        _check_metadata_version(current, level, upgrade_type)
    elif name == KRAFT_VERSION:
        if upgrade_type == UPGRADE:
            state.kraft_version.upgrade(level, validate_only=validate_only)
            return NoOpRecord()  # committed when what the quorum wrote before it is
        if level < current:
            raise _refuse(name, level, "Can't downgrade the version of this feature.")
        return None
    else:
        unmet = features.unmet_dependency(name, level, proposed)
        if unmet is not None:
            raise _refuse(name, level, unmet)
    return FeatureLevelRecord(name=name, feature_level=level)


def _check_metadata_version(current: int, level: int, upgrade_type: int) -> None:
    if level >= current or not metadata_version.metadata_changes_between(current, level):
        return
    reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    if upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    text = f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    raise KafkaError(error_codes.INVALID_UPDATE_VERSION, text)


def _why_unsupported(state: ControllerState, name: str, level: int) -> str | None:
    """Explain why a level cannot be finalised: a node does not support it, or it is not known whether the node does."""
    nodes: list[tuple[str, Mapping[str, FeatureRange]]] = [
        (f"Local controller {state.settings.node_id}", features.SUPPORTED)
    ]
    nodes += [(f"Broker {broker.id}", broker.features) for broker in state.image.brokers.values()]
    nodes += [
        (f"Controller {controller.id}", controller.features)
        for controller in state.image.controllers.values()
        if controller.id != state.settings.node_id
    ]
    for node, supported in nodes:
        levels = supported.get(name, DISABLED)
        if level not in levels:
            if levels.highest == 0:
                return f"{node} does not support this feature."
            single = levels.lowest == levels.highest
            return f"{node} only supports versions {levels.lowest if single else f'{levels.lowest}-{levels.highest}'}"
    if state.image.level >= metadata_version.CONTROLLER_REGISTRATION:
        for voter_id in state.settings.configured_voters:
            if voter_id != state.settings.node_id and voter_id not in state.image.controllers:
                return f"controller {voter_id} has not registered, and may not support this feature"
    return None
