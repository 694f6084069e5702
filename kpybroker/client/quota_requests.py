"""The requests of ``kpybroker quotas``: the quotas of users, client ids and addresses (KIP-546). Raises KafkaError."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.client.client import Client, raise_for
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

KINDS: Final = ("user", "client-id", "ip")
"""The types of entities, in the order in which they are shown."""
KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
EXACT, DEFAULT = 0, 1

Names = Mapping[str, str | None]
"""The name of each type of an entity; None is the default."""


class Quotas(NamedTuple):
    """The quotas of one entity."""

    names: Names
    values: Mapping[str, float]


def described(names: Names) -> str:
    """An entity in words."""
    parts = [f"{kind} {'(default)' if names[kind] is None else names[kind]}" for kind in KINDS if kind in names]
    return ", ".join(parts)


def find(client: Client, names: Names) -> list[Quotas]:
    """The quotas of all entities that have these names among theirs."""
    request = DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name)
            for kind, name in names.items()
        ],
        strict=False,
    )
    answer = client.call(request)
    raise_for(answer.error_code, "quotas", answer.error_message)
    found = [
        Quotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda each: described(each.names))


def alter(
    client: Client, names: Names, sets: Mapping[str, float], removes: Sequence[str], *, validate_only: bool = False
) -> None:
    """Change quotas of one entity, all or none."""
    request = AlterClientQuotasRequest(entries=[entry(names, sets, removes)], validate_only=validate_only)

    def attempt() -> None:
        for each in client.call(request).entries:
            raise_for(each.error_code, described(names), each.error_message)

    client.retrying(attempt)


def entry(names: Names, sets: Mapping[str, float], removes: Sequence[str]) -> AlterClientQuotasRequestEntryData:
    """The changes of one entity's quotas."""
    ops = [OpData(key=key, value=value, remove=False) for key, value in sets.items()]
    ops += [OpData(key=key, value=0.0, remove=True) for key in removes]
    entity = [AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in names.items()]
    return AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
