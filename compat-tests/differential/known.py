"""Where kpybroker answers otherwise on purpose or until something is built, each by its row in KNOWN_DIFFERENCES.md.

Anything else that differs is a finding. An entry says as narrowly as it can what it covers; `test_differential` holds
that its row is there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from differential.comparison import Difference
from differential.steps import Call
from kpywire import api
from raw_client import api_key_of


class Known(NamedTuple):
    """A difference that is no finding."""

    name: str
    row: str
    """Words of its row in KNOWN_DIFFERENCES.md."""
    apis: frozenset[int]
    matches: Callable[[Any, Difference, Any], bool]
    """By request, difference and Apache Kafka's whole answer."""
    ends: bool = False
    """Whether what follows in the sequence cannot be compared any more."""


def known_for(call: Call, difference: Difference, kafka: Any) -> Known | None:
    """The entry that covers a difference, if one does."""
    key = api_key_of(call.request)
    return next((each for each in KNOWN if key in each.apis and each.matches(call.request, difference, kafka)), None)


def _keys(*keys: int) -> frozenset[int]:
    return frozenset(keys)


def _transactional(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return bool(request.transactional_id is not None)


def _coordinator_of_other_kinds(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return bool(request.key_type != 0)


def _refused_by_the_log(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return difference.path.endswith("log_start_offset") and difference.kpybroker == -1


def _says(*names: str) -> Callable[[Any, Difference, Any], bool]:
    """One side's value of a field of these names, whatever it is."""
    return lambda request, difference, kafka: difference.path.rpartition(".")[2] in names  # noqa: ARG005


def _min_insync(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    element = difference.element
    return isinstance(element, dict) and element.get("name") == "min.insync.replicas"


def _unknown_operation(request: Any, difference: Difference, kafka: Any) -> bool:  # noqa: ARG001
    return any(not 0 <= each.config_operation <= 3 for resource in request.resources for each in resource.configs)


KNOWN = (
    Known(
        "unknown operations",
        "IncrementalAlterConfigs with an unknown operation on anything but a broker",
        _keys(api.INCREMENTAL_ALTER_CONFIGS),
        _unknown_operation,
    ),
    Known(
        "min.insync.replicas",
        "DescribeConfigs, AlterConfigs of `min.insync.replicas`",
        _keys(api.CREATE_TOPICS, api.DESCRIBE_CONFIGS),
        _min_insync,
    ),
    Known(
        "transactional ids",
        "FindCoordinator and InitProducerId with a transactional id",
        _keys(api.INIT_PRODUCER_ID),
        _transactional,
    ),
    Known(
        "coordinators of transactions and shares",
        "FindCoordinator and InitProducerId with a transactional id",
        _keys(api.FIND_COORDINATOR),
        _coordinator_of_other_kinds,
    ),
    Known(
        "log start offset of what the log refused",
        "Produce refused as INVALID_RECORD by the log",
        _keys(api.PRODUCE),
        _refused_by_the_log,
    ),
    Known(
        "leaders and protocols by hash",
        "which member leads when the leader has gone",
        _keys(api.JOIN_GROUP),
        _says("leader"),
        ends=True,
    ),
)
"""In the order in which they are tried."""
