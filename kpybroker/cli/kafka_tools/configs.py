"""kafka-configs: describes and alters configs, quotas and SCRAM credentials."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.cli.configs import split_outside_brackets
from kpybroker.cli.kafka_tools.options import Found, ToolOptions, ToolRefusal, cluster_of, file_of
from kpybroker.client import config_requests, quota_requests, topic_requests, user_requests
from kpybroker.client.client import Client
from kpybroker.client.config_requests import ConfigChange, ConfigOperation, ConfigResource, ConfigResourceType
from kpybroker.client.group_listing import list_groups
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.sasl.scram import MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS
from kpywire import error_codes
from kpywire.messages.describe_configs import DescribeConfigsResourceResult

NAME: Final = "kafka-configs"
KINDS: Final = {
    "topics": ConfigResourceType.TOPIC,
    "brokers": ConfigResourceType.BROKER,
    "broker-loggers": ConfigResourceType.BROKER_LOGGER,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
    "groups": ConfigResourceType.GROUP,
}
QUOTA_TYPES: Final = {"users": "user", "clients": "client-id", "ips": "ip"}
TYPES: Final = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
SHORT: Final = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
DEFAULTS: Final = {
    "client-defaults": "clients",
    "user-defaults": "users",
    "broker-defaults": "brokers",
    "ip-defaults": "ips",
}
SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
OWN_SOURCES: Final = {
    ConfigResourceType.TOPIC: (1,),
    ConfigResourceType.BROKER: (2,),
    ConfigResourceType.BROKER_LOGGER: (6,),
    ConfigResourceType.CLIENT_METRICS: (7,),
    ConfigResourceType.GROUP: (8,),
}
"""The sources of configs that are set for a resource itself."""
QUOTAS_OF: Final[Mapping[str, Sequence[str]]] = {
    "users": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "clients": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "ips": ("connection_creation_rate",),
}
DEFAULT: Final = ""
"""The name of the default entity."""


class Entity(NamedTuple):
    """A type, and a name: `DEFAULT` for the default of all, None where no name was given."""

    kind: str
    name: str | None

    @property
    def singular(self) -> str:
        """The type in the singular, as Kafka's tool writes it."""
        return self.kind[:-1]


def options_of() -> ToolOptions:
    """The options of the tool."""
    options = ToolOptions(
        NAME, "Manipulate and describe entity config for topics, clients, users, brokers, ips or groups."
    )
    options.of_cluster()
    options.flags("describe", "alter", "all", *DEFAULTS)
    options.texts("add-config", "add-config-file", "delete-config", *SHORT)
    options.lists("entity-type")
    options.add_argument("--entity-name", action="append", default=[], dest="entity_names")
    options.add_argument("--entity-default", action="append_const", const=DEFAULT, dest="entity_names")
    return options


def run(options: ToolOptions, found: Found) -> None:
    """Run the tool. Raises KafkaError, Refusal."""
    action = options.one_of(found, "describe", "alter")
    entities = _entities(found)
    if found.all and action == "alter":
        options.error("option all cannot be used with option alter")
    with cluster_of(found) as client:
        if action == "describe":
            if found.add_config or found.add_config_file or found.delete_config:
                options.error("--add-config, --add-config-file and --delete-config need --alter")
            _describe(client, entities, every=found.all)
        else:
            _alter(client, entities, *_changes(found))


def _entities(found: Found) -> list[Entity]:
    """The entities that the options name, in Kafka's order."""
    long = list(zip(found.entity_type, found.entity_names, strict=False))
    entities = [Entity(kind, name) for kind, name in long]
    entities += [Entity(kind, None) for kind in found.entity_type[len(long) :]]
    entities += [
        Entity(kind, name) for option, kind in SHORT.items() if (name := getattr(found, option.replace("-", "_")))
    ]
    entities += [Entity(kind, DEFAULT) for option, kind in DEFAULTS.items() if getattr(found, option.replace("-", "_"))]
    if not entities:
        raise ToolRefusal("At least one entity type must be specified")
    kinds = {each.kind for each in entities}
    for each in entities:
        if each.kind not in TYPES:
            raise ToolRefusal(f"Invalid entity type {each.kind}, the entity type must be one of {', '.join(TYPES)}")
    if len(kinds) < len(entities) or (len(entities) > 1 and kinds != {"users", "clients"}):
        raise ToolRefusal("Only the entity types users and clients can be specified together, each once")
    return entities


def _changes(found: Found) -> tuple[dict[str, str], list[str]]:
    """The configs to add, and the names of those to delete."""
    if found.add_config is not None and found.add_config_file is not None:
        raise ToolRefusal("Only one of --add-config or --add-config-file must be specified")
    if found.add_config is None and found.add_config_file is None and found.delete_config is None:
        raise ToolRefusal(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    adds = file_of(found.add_config_file)
    for pair in split_outside_brackets(found.add_config or ""):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ToolRefusal(
                "requirement failed: Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            )
        adds[key.strip()] = value.strip()
    return adds, [key.strip() for key in (found.delete_config or "").split(",") if key.strip()]


def _alter(client: Client, entities: list[Entity], adds: dict[str, str], deletes: list[str]) -> None:
    first = entities[0]
    if any(each.name is None for each in entities):
        raise ToolRefusal(f"An entity name must be specified with --alter of {first.kind}")
    if first.kind in QUOTA_TYPES:
        _alter_quotas_or_users(client, entities, adds, deletes)
    else:
        resource = ConfigResource(KINDS[first.kind], first.name or "")
        if not resource.name and resource.kind is not ConfigResourceType.BROKER:
            raise ToolRefusal(f"An entity name must be specified with --alter of {first.kind}")
        changes = [ConfigChange(ConfigOperation.SET, *pair) for pair in adds.items()]
        changes += [ConfigChange(ConfigOperation.DELETE, name, None) for name in deletes]
        config_requests.alter(client, resource, changes)
    if first.name:
        print(f"Completed updating config for {first.singular} {first.name}.")
    else:
        print(f"Completed updating default config for {first.kind} in the cluster.")


def _alter_quotas_or_users(client: Client, entities: list[Entity], adds: dict[str, str], deletes: list[str]) -> None:
    kind = entities[0].kind
    users = [name for name in (*adds, *deletes) if name in MECHANISMS]
    unknown = [name for name in (*adds, *deletes) if name not in QUOTAS_OF[kind] and name not in users]
    if unknown or (users and kind != "users"):
        also = " and SCRAM credential" if kind == "users" else ""
        raise ToolRefusal(
            f"Only quota{also} configs can be changed for {kind!r}. Unexpected: {', '.join(unknown or users)}"
        )
    if users and len(users) < len(adds) + len(deletes):
        raise ToolRefusal("Cannot alter both quota and SCRAM credential configs simultaneously for 'users'.")
    if users:
        if len(entities) > 1 or not entities[0].name:
            raise ToolRefusal("SCRAM credentials belong to one user; name it with --entity-name")
        _alter_user(client, entities[0].name, adds, deletes)
        return
    names = {QUOTA_TYPES[each.kind]: each.name or None for each in entities}
    quota_requests.alter(client, names, {name: _number(name, text) for name, text in adds.items()}, deletes)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ToolRefusal(f"Cannot parse quota configuration value for {name}: {text}") from None


def _alter_user(client: Client, user: str, adds: Mapping[str, str], deletes: Sequence[str]) -> None:
    if len(adds) + len(deletes) > 1:
        raise ToolRefusal("A user credential cannot be altered twice in the same request")
    for name, text in adds.items():
        configured = {key.strip(): value.strip() for key, _, value in (each.partition("=") for each in text.split(","))}
        if unknown := configured.keys() - {"password", "iterations"}:
            raise ToolRefusal(f"{name} takes iterations and password, not {', '.join(sorted(unknown))}")
        iterations, password = configured.get("iterations", str(MIN_ITERATIONS)), configured.get("password")
        if not password:
            raise ToolRefusal(f"Password must be specified for {name}")
        if not iterations.isdecimal() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise ToolRefusal(
                f"Iterations {iterations} is not from {MIN_ITERATIONS} to {MAX_ITERATIONS}, as {name} needs it"
            )
        user_requests.set_password(client, user, password, MECHANISMS[name], int(iterations))
    for name in deletes:
        user_requests.remove(client, user, MECHANISMS[name])


def _describe(client: Client, entities: list[Entity], *, every: bool) -> None:
    if entities[0].kind in QUOTA_TYPES:
        _describe_quotas(client, entities)
        return
    kind, name = entities[0]
    if kind == "broker-loggers" and not name:
        raise ToolRefusal("An entity name must be specified with --describe of broker-loggers")
    for each in [name] if name is not None else _all_of(client, kind):
        if name and not _exists(client, kind, name):
            print(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
            continue
        _describe_resource(client, Entity(kind, each), every=every)


def _all_of(client: Client, kind: str) -> list[str]:
    if kind == "topics":
        return [topic.name or "" for topic in topic_requests.existing(client)]
    if kind == "brokers":
        return [*(str(node.node_id) for node in client.nodes()), DEFAULT]
    return config_requests.resources(client, KINDS[kind])


def _exists(client: Client, kind: str, name: str) -> bool:
    if kind == "topics":
        return name in (topic.name for topic in client.topics())
    if kind in ("brokers", "broker-loggers"):
        return name in (str(node.node_id) for node in client.nodes())
    if kind == "groups" and name in (group.group_id for group in list_groups(client)):
        return True
    return name in config_requests.resources(client, KINDS[kind])


def _describe_resource(client: Client, entity: Entity, *, every: bool) -> None:
    kind = KINDS[entity.kind]
    found = config_requests.describe(client, ConfigResource(kind, entity.name or ""), synonyms=True)
    own = OWN_SOURCES[kind] if entity.name else (3,)
    shown = "All" if every else "Dynamic"
    if entity.name:
        print(f"{shown} configs for {entity.singular} {entity.name} are:")
    else:
        print(f"Default configs for {entity.kind} in the cluster are:")
    for each in found:
        if every or each.config_source in own:
            print(_config_line(each))


def _config_line(config: DescribeConfigsResourceResult) -> str:
    synonyms = ", ".join(f"{SOURCES.get(each.source)}:{each.name}={_value(each.value)}" for each in config.synonyms)
    sensitive = "true" if config.is_sensitive else "false"
    return f"  {config.name}={_value(config.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _describe_quotas(client: Client, entities: list[Entity]) -> None:
    types = [QUOTA_TYPES[each.kind] for each in entities]
    wanted = {QUOTA_TYPES[each.kind]: each.name or None for each in entities if each.name is not None}
    for each in quota_requests.find(client, wanted):
        if set(each.names) == set(types):
            values = ", ".join(f"{name}={value}" for name, value in sorted(each.values.items()))
            entity_texts = ", ".join(
                _entity_text(kind, each.names[kind]) for kind in ("user", "client-id", "ip") if kind in each.names
            )
            print(f"Quota configs for {entity_texts} are {values}")
    if [each.kind for each in entities] == ["users"] and entities[0].name != DEFAULT:
        _describe_users(client, entities[0].name)


def _entity_text(kind: str, name: str | None) -> str:
    shown = "user-principal" if kind == "user" else kind
    return f"the default {shown}" if name is None else f"{shown} '{name}'"


def _describe_users(client: Client, user: str | None) -> None:
    try:
        found = user_requests.credentials(client, *([user] if user else []))
    except KafkaError as error:
        if error.code == error_codes.RESOURCE_NOT_FOUND:
            return
        raise
    by_user: dict[str, list[str]] = {}
    for each in found:
        by_user.setdefault(each.user, []).append(f"{each.mechanism}=iterations={each.iterations}")
    for name, shown in by_user.items():
        print(f"SCRAM credential configs for user-principal '{name}' are {', '.join(shown)}")
