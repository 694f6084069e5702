"""The part of AlterConfigs and IncrementalAlterConfigs that a broker decides before the controller sees them.

As in Kafka's ``ConfigAdminManager``, malformed resources are refused, changes of this broker's own configs are tried on
the config it runs with, and loggers are set on the spot. The rest goes to the controller; ``merge`` puts both answers
together in the order of the request. Only loggers are ever changed here.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, Protocol

from kpybroker.config import dynamic
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.loggers import LEVEL_NAMES, ROOT
from kpybroker.config.zookeeper_configs import ZOOKEEPER_CONFIGS
from kpybroker.machines.config_def import LIST, ConfigError, ConfigKey, edited_list, java_int, to_text
from kpybroker.runtime.calls.scattered import Scattered
from kpywire import error_codes
from kpywire.messages import alter_configs as legacy
from kpywire.messages import incremental_alter_configs as incremental

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
_OPERATIONS: Final = ("SET", "DELETE", "APPEND", "SUBTRACT")
STEP: Final = 32
MOST_CONFIGS: Final = 5_000
"""The most configs of one resource in a request."""
_CHANGED_BY_CONTROLLER: Final = (TOPIC, BROKER, CLIENT_METRICS, GROUP)


class AlterView(Protocol):
    """The information that decisions need, and the loggers."""

    @property
    def config(self) -> BrokerConfig:
        """The present config of this broker, dynamic configs included."""

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The stored configs of a resource; a broker's name is its id, or empty for all brokers."""

    def logger_levels(self) -> Mapping[str, str]:
        """The levels of this broker's loggers by their names."""

    def set_logger_level(self, name: str, level: str | None) -> None:
        """Set a logger's level; None removes the level that it has of its own."""


Settled = MutableMapping[int, ConfigError | None]
"""The outcomes of resources that need no controller, by their place in the request: an error, or None if done."""
Settling = Generator[None, None, Settled]
"""A computation that yields once for each resource."""


def settle_incremental(
    request: incremental.IncrementalAlterConfigsRequest, view: AlterView, *, is_allowed: bool = True
) -> Settling:
    """Settle the resources of an IncrementalAlterConfigs that need no controller. Loggers are set unless
    ``validate_only``. ``is_allowed``: whether the sender may change configs of brokers."""

    def judge(resource: incremental.AlterConfigsResource) -> bool:
        nulls = [
            config.name for config in resource.configs if config.config_operation != DELETE and config.value is None
        ]
        _check_configs([config.name for config in resource.configs], nulls)
        if resource.resource_type == BROKER_LOGGER:
            _set_loggers(resource, view, validate_only=request.validate_only)
            return True
        if resource.resource_type == BROKER:
            _check_permission(view, is_allowed=is_allowed)
            _check_broker_name(resource.resource_name, view)
            stored = view.configs_of(BROKER, resource.resource_name)
            _check_broker_configs(resource.resource_name, _applied(stored, resource, view), view, is_allowed=is_allowed)
        else:
            _check_type(resource.resource_type, view)
        return False

    return (yield from _settle(request.resources, judge, (yield from _repeated(request.resources))))


def settle_legacy(request: legacy.AlterConfigsRequest, view: AlterView, *, is_allowed: bool = True) -> Settling:
    """Settle the resources of an AlterConfigs that need no controller. ``is_allowed`` as above."""

    def judge(resource: legacy.AlterConfigsResource) -> bool:
        nulls = [config.name for config in resource.configs if config.value is None]
        _check_configs([config.name for config in resource.configs], nulls)
        if resource.resource_type == BROKER:
            _check_permission(view, is_allowed=is_allowed)
            _check_broker_name(resource.resource_name, view)
            configs = {config.name: config.value or "" for config in resource.configs}
            _check_broker_configs(resource.resource_name, configs, view, is_allowed=is_allowed)
        else:
            _check_type(resource.resource_type, view)
        return False

    return (yield from _settle(request.resources, judge, (yield from _repeated(request.resources))))


def settle_on_controller(
    request: incremental.IncrementalAlterConfigsRequest | legacy.AlterConfigsRequest, view: AlterView
) -> Settling:
    """Settle the resources that the controller's listener of a node handles itself: loggers (Kafka's
    ``ControllerApis``)."""

    def judge(resource: incremental.AlterConfigsResource | legacy.AlterConfigsResource) -> bool:
        if resource.resource_type != BROKER_LOGGER:
            return False
        if isinstance(resource, legacy.AlterConfigsResource):
            raise _invalid_request("Unexpected resource type BROKER_LOGGER.")
        _set_loggers(resource, view, validate_only=request.validate_only)
        return True

    return (yield from _settle(request.resources, judge, {}))


def _settle(resources: Sequence[Any], judge: Callable[[Any], bool], settled: Settled) -> Settling:
    """Add the resources that ``judge`` refuses or completes (True) to those that are settled already."""
    for place, resource in enumerate(resources):
        if place in settled:
            if place % STEP == STEP - 1:
                yield
            continue
        yield
        try:
            if len(resource.configs) > MOST_CONFIGS:
                raise _invalid_request(f"A resource has more than {MOST_CONFIGS} configs.")
            if judge(resource):
                settled[place] = None
        except ConfigError as error:
            settled[place] = error
    return settled


def without(resources: Sequence[Any], settled: Settled) -> Generator[None, None, list[Any]]:
    """Return the resources of a request that the controller must handle, in steps."""
    rest: list[Any] = []
    for place, resource in enumerate(resources):
        if place % STEP == STEP - 1:
            yield
        if place not in settled:
            rest.append(resource)
    return rest


def merge(
    resources: Sequence[Any], settled: Settled, answered: Iterable[Any], response_class: type[Any]
) -> Generator[None, None, list[Any]]:
    """The response for every resource in the order of the request; ``answered`` are the controller's."""
    by_key: Scattered[tuple[int, str], Any] = Scattered()
    for number, response in enumerate(answered, 1):
        if number % STEP == 0:
            yield
        by_key[response.resource_type, response.resource_name] = response
    merged: list[Any] = []
    for place, resource in enumerate(resources):
        if place % STEP == STEP - 1:
            yield
        key = (resource.resource_type, resource.resource_name)
        if place not in settled and key in by_key:
            merged.append(by_key[key])
            continue
        error = settled.get(place, ConfigError("", error_codes.UNKNOWN_SERVER_ERROR))
        merged.append(
            response_class(
                error_code=error_codes.NONE if error is None else error.code,
                error_message=None if error is None or not error.message else error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    yield from by_key.emptied()
    return merged


def _repeated(resources: Sequence[Any]) -> Settling:
    """Refuse every resource that occurs more than once."""
    first: Scattered[tuple[int, str], int] = Scattered()
    settled: Settled = Scattered()
    error = _invalid_request("Each resource must appear at most once.")
    for place, resource in enumerate(resources):
        earlier = first.setdefault((resource.resource_type, resource.resource_name), place)
        if earlier != place:
            settled[earlier] = settled[place] = error
        if place % STEP == STEP - 1:
            yield
    yield from first.emptied()
    return settled


def _invalid_request(message: str) -> ConfigError:
    return ConfigError(message, error_codes.INVALID_REQUEST)


def _check_configs(names: Sequence[str], nulls: Sequence[str]) -> None:
    if len(set(names)) != len(names):
        raise _invalid_request("Error due to duplicate config keys")
    if nulls:
        raise _invalid_request(f"Null value not supported for : {', '.join(nulls)}")


def _check_type(resource_type: int, view: AlterView) -> None:
    """Groups have configs in KRaft mode alone."""
    if resource_type not in _CHANGED_BY_CONTROLLER or (resource_type == GROUP and view.config.is_in_zookeeper_mode):
        raise _invalid_request(f"Unknown resource type {resource_type}")


def _check_permission(view: AlterView, *, is_allowed: bool) -> None:
    """Like Kafka, before what the configs of a broker say. In ZooKeeper mode the controller refuses, after it."""
    if not is_allowed and not view.config.is_in_zookeeper_mode:
        raise ConfigError("", error_codes.CLUSTER_AUTHORIZATION_FAILED)


def _check_broker_name(name: str, view: AlterView) -> None:
    if name and _node_id(name) != view.config.node_id:
        raise _invalid_request(f"Unexpected broker id, expected {view.config.node_id}, but received {name}")


def _node_id(name: str) -> int:
    try:
        return java_int(name)
    except ValueError:
        raise _invalid_request(f"Node id must be an integer, but it is: {name}") from None


def _check_broker_configs(name: str, configs: Mapping[str, str], view: AlterView, *, is_allowed: bool) -> None:
    """Only a sender that may change the configs learns what the files and the present configs of a broker do not
    allow; here others are in ZooKeeper mode."""
    if is_allowed:
        dynamic.validate(configs, view.config, of_one_broker=bool(name))
    else:
        in_zookeeper_mode = view.config.is_in_zookeeper_mode
        dynamic.check_names_and_values(configs, of_one_broker=bool(name), in_zookeeper_mode=in_zookeeper_mode)


def _applied(stored: Mapping[str, str], resource: incremental.AlterConfigsResource, view: AlterView) -> dict[str, str]:
    """The configs that would be stored for a broker after the operations, with the wording of Kafka's brokers for
    errors."""
    in_zookeeper_mode = view.config.is_in_zookeeper_mode
    of_one_broker = bool(resource.resource_name)
    configs = dynamic.valid_part(stored, of_one_broker=of_one_broker, in_zookeeper_mode=in_zookeeper_mode)
    for config in resource.configs:
        operation, name, value = config.config_operation, config.name, config.value or ""
        if operation == SET:
            configs[name] = value
        elif operation == DELETE:
            configs.pop(name, None)
        elif operation in (APPEND, SUBTRACT):
            key = (ZOOKEEPER_CONFIGS.get(name) if in_zookeeper_mode else None) or BROKER_CONFIGS.get(name)
            configs[name] = _edited_list(configs.get(name), name, key, value, operation)
        else:
            raise _invalid_request(f"Unknown operations type {operation}")
    return configs


def _edited_list(current: str | None, name: str, key: ConfigKey | None, value: str, operation: int) -> str:
    if key is None:
        raise ConfigError(f"Unknown config name: {name}")
    if key.type != LIST:
        raise ConfigError(f"Config value {_OPERATIONS[operation].lower()} is not allowed for config key: {name}")
    before = to_text(key.default) or "" if current is None else current
    return edited_list(before, value, subtracts=operation == SUBTRACT)


def _set_loggers(resource: incremental.AlterConfigsResource, view: AlterView, *, validate_only: bool) -> None:
    node_id = _node_id(resource.resource_name)
    if node_id != view.config.node_id:
        raise _invalid_request(f"Unexpected node id. Expected {view.config.node_id}, but received {node_id}")
    levels = view.logger_levels()
    for config in resource.configs:
        _check_logger(config, levels)
    if not validate_only:
        for config in resource.configs:
            view.set_logger_level(config.name, config.value if config.config_operation == SET else None)


def _check_logger(config: incremental.AlterableConfig, levels: Mapping[str, str]) -> None:
    operation, name = config.config_operation, config.name
    if operation not in (SET, DELETE):
        if operation not in (APPEND, SUBTRACT):
            raise _invalid_request(f"Unknown operations type {operation}")
        raise _invalid_request(f"{_OPERATIONS[operation]} operation is not allowed for the BROKER_LOGGER resource")
    if name not in levels:
        raise ConfigError(f"Logger {name} does not exist!")
    if operation == DELETE and name == ROOT:
        raise _invalid_request("Removing the log level of the root logger is not allowed")
    if operation == SET and config.value not in LEVEL_NAMES:
        raise ConfigError(
            f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVEL_NAMES)}"
        )
