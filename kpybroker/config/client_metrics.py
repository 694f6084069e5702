"""The configuration of a client metrics subscription: what a request may set (KIP-714). Pure.

Errors are worded as Kafka's ``ClientMetricsConfigs`` words them. Patterns are Java's as far as RE2 knows them, since
the texts that they are matched with come from clients: a pattern with a lookahead is refused.
"""

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS
from kpybroker.machines.config_def import ConfigError
from kpybroker.machines.java_patterns import Unusable, compiled
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
    patterns_of(patterns)


def values_of(configs: Mapping[str, str]) -> dict[str, Any]:
    """All values of a subscription with these configs; ``match`` as `patterns_of` gives it. Raises ConfigError, and
    KeyError for an unknown name."""
    values: dict[str, Any] = {config: key.default for config, key in CLIENT_METRICS_CONFIGS.items()}
    values |= {config: CLIENT_METRICS_CONFIGS[config].parse(text) for config, text in configs.items()}
    return values | {"match": patterns_of(values["match"])}


def patterns_of(texts: Iterable[str]) -> dict[str, Any]:
    """The compiled patterns of ``match``, by the attribute of the client that each has to match as a whole. Raises
    ConfigError."""
    return dict(map(_pattern, texts))


def _pattern(text: str) -> tuple[str, Any]:
    name, _, expression = text.rstrip("=").partition("=")  # Java's split takes no notice of "=" at the end
    name, expression = name.strip(), expression.strip()
    refusal = f"Illegal client matching pattern: {text}"
    if not expression or "=" in expression or name not in _MATCHED:
        raise ConfigError(refusal)
    try:
        return name, compiled(expression)
    except Unusable as error:
        raise ConfigError(f"{refusal}: {error}" if _is_known_elsewhere(expression) else refusal) from None


def _is_known_elsewhere(expression: str) -> bool:
    """Whether a pattern that RE2 refuses is one for engines that backtrack, such as Java's, so that a reason helps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of nested sets
        try:
            re.compile(expression)
        except (re.error, RecursionError, OverflowError):
            return False
    return True
