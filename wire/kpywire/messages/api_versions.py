"""ApiVersions: API key 18."""

from __future__ import annotations

from kpywire.schema import field, i16, i32, i64, message, string, struct


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    """Version 3 is the first flexible version and adds ClientSoftwareName and ClientSoftwareVersion.
    Version 4 fixes KAFKA-17011, which blocked SupportedFeatures.MinVersion in the response from being 0.
    Version 5 introduces ClusterId and NodeId checking and REBOOTSTRAP_REQUIRED error (KIP-1242).
    """

    client_software_name: string = field("3+", default="", ignorable=True)  # The name of the client.
    client_software_version: string = field("3+", default="", ignorable=True)  # The version of the client.
    # The cluster ID the client intends to connect to. Provide both ClusterId and NodeId, if known.
    cluster_id: string | None = field("5+", default=None, ignorable=True)
    # The node ID the client intends to connect to. Provide both ClusterId and NodeId, if known.
    node_id: i32 = field("5+", default=-1, ignorable=True)


@struct
class ApiVersion:
    api_key: i16  # The API index.
    min_version: i16  # The minimum supported version, inclusive.
    max_version: i16  # The maximum supported version, inclusive.


@struct
class SupportedFeatureKey:
    name: string  # The name of the feature.
    min_version: i16  # The minimum supported version for the feature.
    max_version: i16  # The maximum supported version for the feature.


@struct
class FinalizedFeatureKey:
    name: string  # The name of the feature.
    max_version_level: i16  # The cluster-wide finalized max version level for the feature.
    min_version_level: i16  # The cluster-wide finalized min version level for the feature.


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    """Version 1 adds throttle time to the response.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Version 3 is the first flexible version. Tagged fields are only supported in the body but not in the header.
    The length of the header must not change in order to guarantee the backward compatibility.
    Starting from Apache Kafka 2.4 (KIP-511), ApiKeys field is populated with the supported versions of the
    ApiVersionsRequest when an UNSUPPORTED_VERSION error is returned.
    Version 4 fixes KAFKA-17011, which blocked SupportedFeatures.MinVersion from being 0.
    Version 5 introduces ClusterId and NodeId checking and REBOOTSTRAP_REQUIRED error (KIP-1242).
    """

    error_code: i16  # The top-level error code.
    api_keys: list[ApiVersion]  # The APIs supported by the broker.
    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32 = field("1+", default=0, ignorable=True)
    # Features supported by the broker. Note: in v0-v3, features with MinSupportedVersion = 0 are omitted.
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, default=[], ignorable=True)
    # The monotonically increasing epoch for the finalized features information. Valid values are >= 0. A value of -1 is
    # special and represents unknown epoch.
    finalized_features_epoch: i64 = field("3+", tag=1, default=-1, ignorable=True)
    # List of cluster-wide finalized features. The information is valid only if FinalizedFeaturesEpoch >= 0.
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, default=[], ignorable=True)
    # Set by a KRaft controller if the required configurations for ZK migration are present.
    zk_migration_ready: bool = field("3+", tag=3, default=False, ignorable=True)
