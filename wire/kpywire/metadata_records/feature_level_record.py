"""FeatureLevelRecord: type 12 in the metadata log."""

from __future__ import annotations

from kpywire.schema import i16, message, string


@message(key=12, versions="0", flexible="0+")
class FeatureLevelRecord:
    """Note: New metadata logs and snapshots begin with a FeatureLevelRecord which specifies the metadata level that
    is required to read them. The version of that record cannot advance beyond 0, for backwards compatibility
    reasons.
    """

    name: string  # The feature name.
    # The current finalized feature level of this feature for the cluster, a value of 0 means feature not supported.
    feature_level: i16
