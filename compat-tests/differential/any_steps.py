"""A request of any API at any version: an ordinary one, one with a field changed, or one that nobody would send."""

from random import Random
from typing import Any

from differential.steps import Step, fields_in, learned
from differential.world import World, call
from kpybroker.requests.handlers import served_versions
from kpywire import api
from kpywire.schema import Structure
from support.plausible_requests import plausible
from support.raw_requests import UNKNOWN_ID
from tests.wire.message_values import random_message

NO_SUCH_NODE = 1 << 30
UNTOUCHED = frozenset({"timeout_ms", "timeout_ms_", "max_wait_ms", "acks"})
"""Fields that keep their values: times would make two brokers race, and without acknowledgements there is no answer."""
NOT_AT_RANDOM = frozenset({api.UPDATE_FEATURES, api.CREATE_TOPICS, api.CREATE_PARTITIONS, api.PRODUCE})
"""APIs that are not tried at random: their changes stay for later sequences, or other steps try them with more care."""


def advertised() -> list[tuple[int, int]]:
    """(api key, version) of all that is served."""
    return [(key, version) for key in sorted(served_versions()) for version in versions_of(key)]


def versions_of(key: int) -> range:
    """The served versions of an API."""
    first, last = served_versions()[key]
    return range(max(first, api.API_KEYS[key].min_version), last + 1)


def ordinary(key: int, version: int, topic: str) -> Any:
    """A request that a client might send; a topic that goes by its id is the one that there is."""
    request = plausible(key, version, topic)
    if request is None:
        request = random_message(api.request_class(key), version, Random(version), size=1)
    return _with_id(request, learned("topic_id", topic))


def _with_id(value: Any, topic_id: Any) -> Any:
    if isinstance(value, Structure):
        for each in fields_in(value):
            old = getattr(value, each.name)
            new = _with_id(old, topic_id)
            if new is not old:
                setattr(value, each.name, new)
    elif isinstance(value, list):
        value[:] = [_with_id(each, topic_id) for each in value]
    return topic_id if isinstance(value, bytes) and value == UNKNOWN_ID else value


def any_request(world: World) -> list[Step]:
    key, version = world.rng.choice(advertised())
    request = ordinary(key, version, world.topic())
    how = world.rng.random()
    if how < 0.15 and key not in NOT_AT_RANDOM:
        request = random_message(api.request_class(key), version, world.rng)
    elif how < 0.85:
        for _ in range(world.rng.choice([1, 1, 2])):
            _change_a_field(request, version, world)
    return [harmless(f"x{world.rng.randrange(1000)}", key, version, request)]


def harmless(actor: str, key: int, version: int, request: Any) -> Step:
    """The step, so changed that it waits for nobody and takes no broker away."""
    if key == api.UNREGISTER_BROKER:
        request.broker_id |= NO_SUCH_NODE
    if key == api.FETCH:
        request.max_wait_ms = 0
    if key == api.ADD_PARTITIONS_TO_TXN and version >= 4 and not request.transactions:
        request = plausible(key, version, "~t0")  # without any, Apache Kafka never answers
    if key == api.PRODUCE:
        for partition in (each for topic in request.topic_data for each in topic.partition_data):
            partition.records = partition.records or b""  # without any, Apache Kafka never answers
    elif "timeout_ms" in type(request).FIELDS:
        request.timeout_ms = 30_000
    return call(actor, version, request)


def _change_a_field(message: Any, version: int, world: World) -> None:
    """Somewhere in the message, a value that its type allows."""
    fields = [each for each in fields_in(message) if version in each.versions and each.name not in UNTOUCHED]
    if not fields:
        return
    chosen = world.rng.choice(fields)
    value = getattr(message, chosen.name)
    if isinstance(value, list) and value and isinstance(value[0], Structure) and world.chance(0.8):
        _change_a_field(world.rng.choice(value), version, world)
        return
    if chosen.name in ("num_partitions", "count", "records"):
        return
    other = random_message(type(message), version, world.rng, size=2)
    setattr(message, chosen.name, getattr(other, chosen.name))
