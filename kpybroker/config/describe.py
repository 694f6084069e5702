"""The answers of DescribeConfigs: values with their sources, synonyms, types and texts (KIP-226, KIP-524, KIP-569).

A source is the layer of the value that counts; synonyms list all layers that set a value, the most specific first.
Secret values, and values of unknown names, are null. Everything is computed here, from configs that others hold;
nothing is changed.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Final, Protocol

from kpybroker.config import dynamic, group, topic
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.broker_values import KNOWN
from kpybroker.config.documentation import documentation_of
from kpybroker.config.group_configs import CLIENT_METRICS_CONFIGS, GROUP_CONFIGS, GROUP_SYNONYMS
from kpybroker.config.own_configs import CONSOLE_URL, OWN_CONFIGS
from kpybroker.config.synonyms import broker_synonyms
from kpybroker.config.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS
from kpybroker.config.zookeeper_configs import ZOOKEEPER_CONFIGS
from kpybroker.machines.config_def import ConfigError, ConfigKey, Definitions, java_int, to_text
from kpybroker.machines.metadata import mirror_configs
from kpybroker.machines.metadata.topic_name import reason_invalid
from kpywire import error_codes
from kpywire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
(
    TOPIC_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_LOGGER_CONFIG,
    CLIENT_METRICS_CONFIG,
    GROUP_CONFIG,
) = range(1, 9)
_IN_ZOOKEEPER_MODE: Final = {**BROKER_CONFIGS, **ZOOKEEPER_CONFIGS}
_OF_ZOOKEEPER_MODE: Final = {TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS}
_OF_KRAFT_MODE: Final = {*_OF_ZOOKEEPER_MODE, GROUP}
_TYPES: Final = ("boolean", "string", "int", "short", "long", "double", "list", "class", "password")
_TYPE_IDS: Final = {name: number for number, name in enumerate(_TYPES, 1)}
_UNKNOWN_TYPE: Final = 0

MOST_ENTRIES = 400_000
"""The limit on configs in one answer, enough for 10 000 topics and more. A short request could ask for gigabytes."""

Entries = Iterable[DescribeConfigsResourceResult]
Synonyms = list[DescribeConfigsSynonym]


class DescribeView(Protocol):
    """The information needed to describe everything."""

    @property
    def config(self) -> BrokerConfig:
        """The present config of this broker, dynamic configs included."""

    @property
    def console_url(self) -> str:
        """The address of this node's console; empty if it has none."""

    def has_topic(self, name: str) -> bool:
        """Whether a topic exists."""

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The configs that are set on a topic, group or client metrics subscription; empty if none is."""

    def logger_levels(self) -> Mapping[str, str]:
        """The levels of this broker's loggers by their names."""


STEP_KEYS: Final = 256
"""The number of wanted keys that are read in one step."""


def respond(request: DescribeConfigsRequest, view: DescribeView) -> Generator[None, None, DescribeConfigsResponse]:
    """The answer to a whole request; each resource succeeds or fails by itself. Yields between them."""
    kinds: set[int] = set()
    for nth, resource in enumerate(request.resources, 1):
        if nth % STEP_KEYS == 0:
            yield
        kinds.add(resource.resource_type)
    described_here = _OF_ZOOKEEPER_MODE if view.config.is_in_zookeeper_mode else _OF_KRAFT_MODE
    if not kinds <= described_here:
        error = ConfigError(error_codes.message(error_codes.INVALID_REQUEST) or "", error_codes.INVALID_REQUEST)
        refused = []
        for resource in request.resources:
            yield
            refused.append(_failed(resource, error))
        return _answer(refused)
    results = []
    described: dict[tuple[int, str | None], list[DescribeConfigsResourceResult]] = {}
    room = MOST_ENTRIES
    for resource in request.resources:
        yield
        try:
            if room <= 0:
                message = f"A request may not ask for more than {MOST_ENTRIES} configs"
                raise ConfigError(message, error_codes.INVALID_REQUEST)
            key = _same_for(resource, view)
            if key not in described:
                described[key] = _entries(resource, view, request)
        except ConfigError as error:
            results.append(_failed(resource, error))
            continue
        chosen = described[key]
        if resource.configuration_keys:
            chosen = yield from _chosen(chosen, resource.configuration_keys)
            chosen = [*chosen, *_console_of(resource, view)]
        room -= len(chosen)
        results.append(
            DescribeConfigsResult(
                error_code=error_codes.NONE,
                error_message="",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=chosen,
            )
        )
    return _answer(results)


def _chosen(
    entries: list[DescribeConfigsResourceResult], keys: Sequence[str]
) -> Generator[None, None, list[DescribeConfigsResourceResult]]:
    """Return the entries that are wanted, in steps. Of many keys only those that exist are remembered."""
    names = {entry.name for entry in entries}
    wanted: set[str] = set()
    for start in range(0, len(keys), STEP_KEYS):
        wanted.update(names.intersection(keys[start : start + STEP_KEYS]))
        yield
    return [entry for entry in entries if entry.name in wanted]


def _console_of(resource: DescribeConfigsResource, view: DescribeView) -> Entries:
    """The address of this node's console where a request names that config and it is not set: other nodes link to it.
    Requests for all configs do not get it, since Kafka has none."""
    is_named = resource.configuration_keys == [CONSOLE_URL] and not view.config.is_set(CONSOLE_URL)
    if is_named and resource.resource_type == BROKER and resource.resource_name and view.console_url:
        yield _entry(CONSOLE_URL, view.console_url, [], OWN_CONFIGS[CONSOLE_URL], None, read_only=True)


def _same_for(resource: DescribeConfigsResource, view: DescribeView) -> tuple[int, str | None]:
    """A key for resources that share one description: any name can be a group's, and most groups have nothing set."""
    kind, name = resource.resource_type, resource.resource_name
    shared = kind in (GROUP, CLIENT_METRICS) and name and not view.configs_of(kind, name)
    return kind, None if shared else name


def _entries(
    resource: DescribeConfigsResource, view: DescribeView, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    entries = list(_describe(resource, view, with_documentation=request.include_documentation))
    if not request.include_synonyms:
        for entry in entries:
            entry.synonyms = []
    return entries


def _answer(results: list[DescribeConfigsResult]) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(throttle_time_ms=0, results=results)


def _failed(resource: DescribeConfigsResource, error: ConfigError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code,
        error_message=error.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[],
    )


def _describe(resource: DescribeConfigsResource, view: DescribeView, *, with_documentation: bool) -> Entries:
    kind, name = resource.resource_type, resource.resource_name
    document = documentation_of if with_documentation else _no_documentation
    if kind == TOPIC:
        return _topic(name, view, document)
    if kind == BROKER:
        return _broker(name, view.config, document)
    if kind == BROKER_LOGGER:
        return _loggers(name, view)
    if kind == GROUP:
        _require_name(name, "Group name must not be empty")
        return _group(view.configs_of(GROUP, name), view.config, document)
    _require_name(name, "Client metrics subscription name must not be empty")
    if view.config.is_in_zookeeper_mode:
        message = "Config type client-metrics is only supported on KRaft clusters"
        raise ConfigError(message, error_codes.INVALID_REQUEST)
    return _client_metrics(view.configs_of(CLIENT_METRICS, name), document)


Document = Callable[[str, str], str | None]


def _no_documentation(_table: str, _name: str) -> str | None:
    return None


def _require_name(name: str, message: str) -> None:
    if not name:
        raise ConfigError(message, error_codes.INVALID_REQUEST)


def _topic(name: str, view: DescribeView, document: Document) -> Entries:
    invalid = reason_invalid(name)
    if invalid is not None:
        raise ConfigError(invalid, error_codes.INVALID_TOPIC_EXCEPTION)
    if not view.has_topic(name):
        raise ConfigError("", error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    overrides = view.configs_of(TOPIC, name)
    values = topic.effective(overrides, view.config).values
    for key in TOPIC_CONFIGS.values():
        if key.internal and key.name not in overrides:
            continue
        text = to_text(values[key.name])
        synonyms: Synonyms = []
        if key.name in TOPIC_SYNONYMS:
            synonyms = _broker_synonyms(TOPIC_SYNONYMS[key.name][0][0], view.config)
        if key.name in overrides:
            synonyms = [_synonym(key.name, text, TOPIC_CONFIG), *synonyms]
        yield _entry(key.name, text, synonyms, key, document("topic", key.name), read_only=False)
    if mirror_configs.is_mirror(overrides):
        yield from _mirror(overrides)


def _mirror(overrides: Mapping[str, str]) -> Entries:
    """The configs of a mirror, which other topics do not have."""
    from kpybroker.config.mirrored_topics import MIRRORED_TOPIC_CONFIGS  # not of a plain start

    for name, key in MIRRORED_TOPIC_CONFIGS.items():
        if name in overrides:
            text = overrides[name]
            yield _entry(name, text, [_synonym(name, text, TOPIC_CONFIG)], key, None, read_only=False)


def _group(overrides: Mapping[str, str], config: BrokerConfig, document: Document) -> Entries:
    values = group.effective(overrides, config)
    for key in GROUP_CONFIGS.values():
        if key.internal and key.name not in overrides:
            continue
        text = to_text(values[key.name])
        if key.name in GROUP_SYNONYMS:
            synonyms = _broker_synonyms(GROUP_SYNONYMS[key.name], config)
        else:
            synonyms = [_synonym(key.name, to_text(key.default), DEFAULT_CONFIG)]
        if key.name in overrides:
            synonyms = [_synonym(key.name, text, GROUP_CONFIG), *synonyms]
        yield _entry(key.name, text, synonyms, key, document("group", key.name), read_only=False)


def _client_metrics(configs: Mapping[str, str], document: Document) -> Entries:
    for key in CLIENT_METRICS_CONFIGS.values():
        text = to_text(key.default)
        synonyms: Synonyms = []
        if key.name in configs:
            text = to_text(key.parse(configs[key.name]))
            synonyms = [_synonym(key.name, text, CLIENT_METRICS_CONFIG)]
        yield _entry(key.name, text, synonyms, key, document("client-metrics", key.name), read_only=False)


def _loggers(name: str, view: DescribeView) -> Entries:
    _require_name(name, "Broker id must not be empty")
    if _broker_id(name) != view.config.node_id:
        raise ConfigError(
            f"Unexpected broker id, expected {view.config.node_id} but received {name}", error_codes.INVALID_REQUEST
        )
    for logger, level in view.logger_levels().items():
        yield DescribeConfigsResourceResult(
            name=logger,
            value=level,
            read_only=False,
            config_source=DYNAMIC_BROKER_LOGGER_CONFIG,
            is_sensitive=False,
            synonyms=[],
        )


def _broker(name: str, config: BrokerConfig, document: Document) -> Entries:
    if not name:
        for config_name, text in config.dynamic_default.items():
            yield _broker_entry(config_name, text, config, document, cluster_wide=True)
        return
    if _broker_id(name) != config.node_id:
        raise ConfigError(
            f"Unexpected broker id, expected {config.node_id} or empty string, but received {name}",
            error_codes.INVALID_REQUEST,
        )
    known = _known(config)
    for config_name in names_shown(config):
        value = to_text(config.value(config_name)) if config_name in known else config.originals[config_name]
        yield _broker_entry(config_name, value, config, document)


def names_shown(config: BrokerConfig) -> list[str]:
    """The names of the configs of a broker that are described: Kafka's, and those of others that are set."""
    known = _known(config)
    kafkas = [key.name for key in known.values() if not key.internal or config.is_set(key.name)]
    return kafkas + [name for name in config.originals if name not in known]


def _broker_id(name: str) -> int:
    try:
        return java_int(name)
    except ValueError:
        raise ConfigError(f"Broker id must be an integer, but it is: {name}", error_codes.INVALID_REQUEST) from None


def _broker_entry(
    name: str, text: str | None, config: BrokerConfig, document: Document, *, cluster_wide: bool = False
) -> DescribeConfigsResourceResult:
    synonyms = _broker_synonyms(name, config)
    if cluster_wide:
        synonyms = [synonym for synonym in synonyms if synonym.source == DYNAMIC_DEFAULT_BROKER_CONFIG]
    text_of_name = document("broker", name) if name in KNOWN else None
    return _entry(
        name,
        text,
        synonyms,
        _known(config).get(name) or dynamic.key_of(name),
        text_of_name,
        read_only=dynamic.is_read_only(name),
    )


def _known(config: BrokerConfig) -> Definitions:
    """The configs that Kafka has for a broker of this mode."""
    return _IN_ZOOKEEPER_MODE if config.is_in_zookeeper_mode else BROKER_CONFIGS


def _broker_synonyms(name: str, config: BrokerConfig) -> Synonyms:
    """The layers that set a broker config or one it is a synonym of, from ``name`` itself on: dynamic, static,
    default."""
    known = _known(config)
    key = known.get(name) or dynamic.key_of(name)
    sensitive = key is None or key.sensitive
    names = broker_synonyms(name, match_listener_override=True)
    layers: Sequence[tuple[Mapping[str, str], int]] = (
        (config.dynamic_broker, DYNAMIC_BROKER_CONFIG),
        (config.dynamic_default, DYNAMIC_DEFAULT_BROKER_CONFIG),
        (config.static, STATIC_BROKER_CONFIG),
    )
    found = [
        _synonym(synonym, None if sensitive else layer[synonym], source)
        for layer, source in layers
        for synonym in names
        if synonym in layer
    ]
    for synonym in names:
        if synonym in known and known[synonym].default is not None:
            text = to_text(known[synonym].default)
            found.append(_synonym(synonym, None if sensitive else text, DEFAULT_CONFIG))
    while found and found[0].name != name:
        found.pop(0)
    return found


def _synonym(name: str, text: str | None, source: int) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=text, source=source)


def _entry(
    name: str,
    text: str | None,
    synonyms: Synonyms,
    key: ConfigKey | None,
    documentation: str | None,
    *,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    sensitive = key is None or key.sensitive
    return DescribeConfigsResourceResult(
        name=name,
        value=None if sensitive else text,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else DEFAULT_CONFIG,
        is_sensitive=sensitive,
        synonyms=synonyms,
        config_type=_UNKNOWN_TYPE if key is None else _TYPE_IDS[key.type],
        documentation=documentation,
    )
