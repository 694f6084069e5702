"""AlterClientQuotas on the controller: what is refused, in Kafka's words, and what is written."""

import pytest
from controller_world import ControllerWorld

from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)

RATE = "producer_byte_rate"


def entry(names: dict[str, str | None], **quotas: float | None) -> AlterClientQuotasRequestEntryData:
    """Set quotas of an entity; None removes one."""
    operations = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()]
    entity = [AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name) for kind, name in names.items()]
    return AlterClientQuotasRequestEntryData(entity=entity, ops=operations)


def altered(
    world: ControllerWorld, *entries: AlterClientQuotasRequestEntryData, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    answer = world.send(AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only))
    return [(each.error_code, each.error_message) for each in answer.entries]


@pytest.mark.parametrize(
    ("names", "key", "value", "message"),
    [
        ({}, RATE, 1.0, "Invalid empty client quota entity"),
        ({"group": "g"}, RATE, 1.0, "Unhandled client quota entity type: group"),
        ({"user": ""}, RATE, 1.0, "Empty user not supported"),
        (
            {"ip": "10.0.0.1", "user": "u"},
            "connection_creation_rate",
            1.0,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
        ),
        (
            {"ip": "no address"},
            "connection_creation_rate",
            1.0,
            "no address is not a valid IP or resolvable host.",
        ),
        ({"ip": "10.0.0.1"}, RATE, 1.0, f"Invalid configuration key {RATE}"),
        ({"user": "u"}, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        ({"user": "u"}, RATE, 0.0, f"Quota {RATE} must be greater than 0"),
        ({"user": "u"}, RATE, float("nan"), f"Quota {RATE} must be a finite number"),
        ({"user": "u"}, RATE, float("inf"), f"Quota {RATE} must be a finite number"),
        ({"user": "u"}, RATE, float("-inf"), f"Quota {RATE} must be a finite number"),
        ({"user": "u"}, RATE, 1.5, f"{RATE} cannot be a fractional value."),
        ({"user": "u"}, RATE, 2.0**64, f"Proposed value for {RATE} is too large for a LONG."),
        (
            {"ip": None},
            "connection_creation_rate",
            2.0**31,
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
    ],
)
def test_a_quota_that_cannot_be_is_refused_in_kafkas_words(
    names: dict[str, str | None], key: str, value: float, message: str
) -> None:
    world = ControllerWorld()
    before = len(world.log)
    assert altered(world, entry(names, **{key: value})) == [(error_codes.INVALID_REQUEST, message)]
    assert len(world.log) == before


@pytest.mark.parametrize(
    ("names", "key", "value"),
    [
        ({"user": "u"}, RATE, 1.0),
        ({"user": None}, RATE, float(2**62)),
        ({"user": "u", "client-id": None}, "request_percentage", 0.25),
        ({"client-id": "c"}, "controller_mutation_rate", 0.5),
        ({"ip": "::1"}, "connection_creation_rate", 2.0**31 - 1),
        ({"ip": None}, "connection_creation_rate", 7.0),
    ],
)
def test_a_quota_is_set_and_removed_once(names: dict[str, str | None], key: str, value: float) -> None:
    world = ControllerWorld()
    entity = tuple(sorted(names.items()))
    before = len(world.log)
    assert altered(world, entry(names, **{key: value}), validate_only=True) == [(error_codes.NONE, None)]
    assert len(world.log) == before
    for _ in range(2):
        assert altered(world, entry(names, **{key: value})) == [(error_codes.NONE, None)]
        assert world.image.client_quotas[entity] == {key: value}
        assert len(world.log) == before + 1, "the second time there is nothing to write"
    for _ in range(2):
        assert altered(world, entry(names, **{key: None})) == [(error_codes.NONE, None)]
        assert not world.image.client_quotas.get(entity)
        assert len(world.log) == before + 2


def test_an_entity_that_comes_twice_is_refused_and_the_others_are_written() -> None:
    world = ControllerWorld()
    answers = altered(world, entry({"user": "u"}, **{RATE: 1.0}), entry({"user": "v"}, **{RATE: 2.0}))
    assert answers == [(error_codes.NONE, None)] * 2
    twice = altered(world, entry({"user": None}, **{RATE: 3.0}), entry({"user": None}, **{RATE: 4.0}))
    assert twice == [(error_codes.INVALID_REQUEST, "Ignoring duplicate entity ClientQuotaEntity(entries={user=null})")]
    assert world.image.client_quotas[(("user", "u"),)] == {RATE: 1.0}


def test_many_entities_are_altered_in_steps() -> None:
    world = ControllerWorld()
    answers = altered(world, *(entry({"user": f"u{number}"}, **{RATE: 1.0}) for number in range(300)))
    assert answers == [(error_codes.NONE, None)] * 300
    assert len(world.image.client_quotas) == 300


def test_what_is_not_there_is_removed_in_vain_and_what_follows_is_still_done() -> None:
    world = ControllerWorld()
    wanted = entry({"user": "u"}, producer_byte_rate=None, consumer_byte_rate=7.0, request_percentage=None)
    assert altered(world, wanted) == [(error_codes.NONE, None)]
    assert world.image.client_quotas == {(("user", "u"),): {"consumer_byte_rate": 7.0}}
