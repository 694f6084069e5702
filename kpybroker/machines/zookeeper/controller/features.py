"""Finalised features in ZooKeeper mode: the znode ``/feature``, and UpdateFeatures.

Brokers of Kafka 3.9 support no feature in this mode. So the znode is only made, and each update is refused. Which error
it gets is Kafka's choice (``KafkaController.validateFeatureUpdate``).
"""

from typing import Final

from kpybroker.machines.zookeeper.client import error_codes as zookeeper_errors
from kpybroker.machines.zookeeper.client.operations import Create, Get, Set
from kpybroker.machines.zookeeper.controller.steps import Steps, ZnodeWriter, expected, failed_with, read
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.cluster import FEATURES_ENABLED, FinalizedFeatures
from kpywire import error_codes
from kpywire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
_NOT_SUPPORTED: Final = "Could not apply finalized feature update because the provided feature is not supported."


def enable(writer: ZnodeWriter) -> Steps[None]:
    """Make ``/feature`` if it is missing; rewrite one in which an older version disabled features, or in an older
    format (``enableFeatureVersioning``)."""
    path = paths.FEATURES
    (znode,) = yield from read([Get(path)])
    if znode is None:
        creation = Create(path, FinalizedFeatures().encode(), writer.acl_of(path))
        (result,) = yield from writer.write([creation])
        if not failed_with(result, zookeeper_errors.NODE_EXISTS):  # an attempt whose answer was lost
            expected(result, path)
        return
    found = FinalizedFeatures.decode(znode.data)
    wanted = FinalizedFeatures(found.levels if found.status == FEATURES_ENABLED else {})
    if wanted != found:
        yield from writer.write_all([Set(path, wanted.encode())])


def update_features(request: UpdateFeaturesRequest, api_version: int) -> UpdateFeaturesResponse:
    """The answer to an update: why each feature stays as it is. Of two updates of one feature the first counts."""
    updates: dict[str, FeatureUpdateKey] = {}
    for update in request.feature_updates:
        updates.setdefault(update.feature, update)
    results = [
        UpdatableFeatureResult(
            feature=name, error_code=error_codes.INVALID_REQUEST, error_message=_why_not(update, api_version)
        )
        for name, update in updates.items()
    ]
    return UpdateFeaturesResponse(throttle_time_ms=0, error_code=error_codes.NONE, error_message=None, results=results)


def _why_not(update: FeatureUpdateKey, api_version: int) -> str:
    kind, level = update.upgrade_type, update.max_version_level
    if api_version == 0:
        kind = SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    if not update.feature:
        return "Feature name can not be empty."
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "Received unknown upgrade type."
    if level < 1 and kind != UPGRADE:
        return "Can not delete non-existing finalized feature."
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    return _NOT_SUPPORTED
