"""The configuration of a client metrics subscription: what a request may set (KIP-714). Pure.

Errors are worded as Kafka's ``ClientMetricsConfigs`` words them.
"""

import re
from collections.abc import Mapping
from typing import Final

from kpybroker.config.definition import ConfigError
from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS
from kpywire.error_codes import INVALID_REQUEST

_MIN_INTERVAL_MS: Final = 100
_MAX_INTERVAL_MS: Final = 3_600_000
_MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def validate(name: str, configs: Mapping[str, str]) -> None:
    """Raise ConfigError if the subscription ``name`` cannot have these configs."""
    if not name:
        raise ConfigError("Subscription name can't be empty", INVALID_REQUEST)
    for config in configs:
        if config not in CLIENT_METRICS_CONFIGS:
            raise ConfigError(f"Unknown client metrics configuration: {config}", INVALID_REQUEST)
    values = {config: CLIENT_METRICS_CONFIGS[config].parse(text) for config, text in configs.items()}
    interval_ms = values.get("interval.ms")
    if isinstance(interval_ms, int) and not _MIN_INTERVAL_MS <= interval_ms <= _MAX_INTERVAL_MS:
        raise ConfigError(
            f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)",
            INVALID_REQUEST,
        )
    patterns = values.get("match", ())
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    name, separator, expression = pattern.partition("=")
    try:
        if not separator or not expression or "=" in expression or name.strip() not in _MATCHED:
            raise ValueError(pattern)
        re.compile(expression.strip())
    except (ValueError, re.error):
        raise ConfigError(f"Illegal client matching pattern: {pattern}") from None
