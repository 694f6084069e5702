"""DescribeConfigs: API key 32."""

from __future__ import annotations

from kpywire.schema import field, i8, i16, i32, message, string, struct


@struct
class DescribeConfigsResource:
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.
    configuration_keys: list[string] | None  # The configuration keys to list, or null to list all configuration keys.


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest:
    """Version 1 adds IncludeSynonyms and removes IsDefault.
    Version 4 enables flexible versions.
    """

    resources: list[DescribeConfigsResource]  # The resources whose configurations we want to describe.
    include_synonyms: bool = field(default=False)  # True if we should include all synonyms.
    include_documentation: bool = field("3+", default=False)  # True if we should include configuration documentation.


@struct
class DescribeConfigsSynonym:
    name: string  # The synonym name.
    value: string | None  # The synonym value.
    source: i8  # The synonym source.


@struct
class DescribeConfigsResourceResult:
    name: string  # The configuration name.
    value: string | None  # The configuration value.
    read_only: bool  # True if the configuration is read-only.
    config_source: i8 = field(default=-1)  # The configuration source.
    is_sensitive: bool  # True if this configuration is sensitive.
    synonyms: list[DescribeConfigsSynonym]  # The synonyms for this configuration key.
    # The configuration data type. Type can be one of the following values - BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE,
    # LIST, CLASS, PASSWORD.
    config_type: i8 = field("3+", default=0, ignorable=True)
    documentation: string | None = field("3+", default="", ignorable=True)  # The configuration documentation.


@struct
class DescribeConfigsResult:
    error_code: i16  # The error code, or 0 if we were able to successfully describe the configurations.
    # The error message, or null if we were able to successfully describe the configurations.
    error_message: string | None
    resource_type: i8  # The resource type.
    resource_name: string  # The resource name.
    configs: list[DescribeConfigsResourceResult]  # Each listed configuration.


@message(key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse:
    """Version 1 adds ConfigSource and the synonyms.
    Starting in version 2, on quota violation, brokers send out responses before throttling.
    Version 4 enables flexible versions.
    """

    # The duration in milliseconds for which the request was throttled due to a quota violation, or zero if the request
    # did not violate any quota.
    throttle_time_ms: i32
    results: list[DescribeConfigsResult]  # The results for each resource.
