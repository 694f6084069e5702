"""UpdateFeatures: API key 57."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@struct
class FeatureUpdateKey:
    feature: string  # The name of the finalized feature to be updated.
    # The new maximum version level for the finalized feature. A value >= 1 is valid. A value < 1, is special, and can
    # be used to request the deletion of the finalized feature.
    max_version_level: i16
    # DEPRECATED in version 1 (see DowngradeType). When set to true, the finalized feature version level is allowed to
    # be downgraded/deleted. The downgrade request will fail if the new maximum version level is a value that's not
    # lower than the existing maximum finalized version level.
    allow_downgrade: bool = field("0", default=False)
    # Determine which type of upgrade will be performed: 1 will perform an upgrade only (default), 2 is safe downgrades
    # only (lossless), 3 is unsafe downgrades (lossy).
    upgrade_type: i8 = field("1+", default=1)


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Version 1 adds validate only field.
    Version 2 changes the response to not return feature level results.
    """

    timeout_ms: i32 = field(default=60000)  # How long to wait in milliseconds before timing out the request.
    feature_updates: list[FeatureUpdateKey]  # The list of updates to finalized features.
    # True if we should validate the request, but not perform the upgrade or downgrade.
    validate_only: bool = field("1+", default=False)


@struct
class UpdatableFeatureResult:
    feature: string  # The name of the finalized feature.
    error_code: i16  # The feature update error code or `0` if the feature update succeeded.
    error_message: string | None  # The feature update error, or `null` if the feature update succeeded.


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    error_code: i16  # The top-level error code, or `0` if there was no top-level error.
    error_message: string | None  # The top-level error message, or `null` if there was no top-level error.
    results: list[UpdatableFeatureResult] = field("0-1", default=[], ignorable=True)  # Results for each feature update.
