"""Random ACLs and questions, answered here and by Kafka's ``StandardAuthorizer``."""

import base64
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from kpybroker.config.authorizer_configs import super_users
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.controller.existing_acls import AclContent
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.calls.principal import Principal
from kpywire.metadata_records import encode_record
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from oracle.asked import AskedOracle
from oracle.recorded import Asked, Play

SUPER: Final = "User:super; User:CN=a,O=b "
PRINCIPALS: Final = ("User:a", "User:b", "User:*", "User:a:b", "Team:a", "Team:*", "User:CN=a,O=b", "User:CN=a,O=c")
# Kafka fails for a user whose name is an asterisk: it builds a set of that principal and the wildcard, which are equal.
PEOPLE: Final = tuple(each.partition(":") for each in (*PRINCIPALS, "User:super", "Super:super") if each != "User:*")
HOSTS: Final = ("10.0.0.7", "10.0.0.8", "::1", "::ffff:10.0.0.7", "fe80::1")
ACL_HOSTS: Final = (
    "*",
    "*",
    "10.0.0.7",
    "0:0:0:0:0:0:0:1",
    "::1",
    "10.0.0.0/8",
    "10.0.0.8/31",
    "0.0.0.0/0",
    "::/1",
    "fe80::/10",
    "/8",
    "nonsense!",
    "",
)
NAMES: Final = ("a", "b", "aa", "ab", "ba", "aab", "abb", "abc", "*", "*a", "a*", "hardcode", "h", "é", "aé", "😀")
ASKED_NAMES: Final = tuple(each for each in NAMES if each != "*a")
TYPES: Final = tuple(ResourceType)[2:]
OPERATIONS: Final = tuple(AclOperation)[2:]
QUESTIONS: Final = 40
RECORDED: Final = 6_000
"""The number of questions about one principal at one address."""
CHANGES: Final = 5
"""The number of times that the ACLs of a world change."""


def started() -> AskedOracle:
    return AskedOracle("AclOracle.java", "org.apache.kafka.controller.AclOracle")


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


def an_acl(rng: Random, kinds: tuple[ResourceType, ...]) -> AclContent:
    return AclContent(
        rng.choice(kinds),
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(PRINCIPALS),
        rng.choice(ACL_HOSTS),
        rng.choice(OPERATIONS),
        Permission.ALLOW if rng.random() < 0.75 else Permission.DENY,
    )


class World:
    """The same ACLs here and in Kafka."""

    def __init__(self, kafka: Asked, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        self.acls: dict[bytes, Acl] = {}
        everyone = rng.random() < 0.3
        self.ours = Authorizer(super_users({"super.users": SUPER}), allows_without_acl=everyone)
        kafka.ask_for_line("begin", SUPER, str(everyone).lower())

    def change(self) -> None:
        rng = self.rng
        gone = rng.sample(sorted(self.acls), rng.randint(0, len(self.acls)))
        records: list[Any] = [RemoveAccessControlEntryRecord(id=each) for each in gone]
        for each in gone:
            del self.acls[each]
        present = {AclContent.of(each) for each in self.acls.values()}
        kinds = tuple(rng.sample(TYPES, rng.randint(1, 3)))
        come = {an_acl(rng, kinds) for _ in range(rng.choice((0, 1, 3, 10, 60)))} - present
        added = [Acl(id=rng.randbytes(16), **each._asdict()) for each in sorted(come)]
        self.acls.update((each.id, each) for each in added)
        self.ours.acls_changed(self.acls, [*gone, *(each.id for each in added)])
        if records or added:
            encoded = [base64.b64encode(encode_record(each, 0)).decode() for each in (*records, *added)]
            assert self.kafka.ask_for_line("records", ",".join(encoded)) == str(self.ours.acl_count)

    def compare(self) -> int:
        """Ask both about one principal; the number of questions."""
        rng = self.rng
        principal_type, _, name = rng.choice(PEOPLE)
        address = rng.choice(HOSTS)
        here = Principal(principal_type, name), java_address(address)
        asked = [(rng.choice(OPERATIONS), rng.choice(TYPES), rng.choice(ASKED_NAMES)) for _ in range(QUESTIONS)]
        words = [word for operation, kind, named in asked for word in (int(operation), int(kind), named)]
        theirs = self.kafka.ask_for_line("ask", principal_type, name, address, *words)
        ours = "".join("-+"[self.ours.allows(*here, *question)] for question in asked)
        assert ours == theirs, self.difference(here, asked, ours, theirs)
        if here[0] not in self.ours.super_users:
            notified = self.kafka.ask_for_line("rules", principal_type, name, address, *words).split("|")
            rules = [str(self.ours.decide(*here, *question)) for question in asked]
            assert rules == notified, [each for each in zip(asked, rules, notified, strict=False) if each[1] != each[2]]
        kinds = [(operation, kind) for operation in OPERATIONS for kind in TYPES]
        kinds = rng.sample(kinds, QUESTIONS // 4)
        words = [int(word) for pair in kinds for word in pair]
        theirs = self.kafka.ask_for_line("any", principal_type, name, address, *words)
        ours = "".join("-+"[self.ours.allows_any(*here, *question)] for question in kinds)
        assert ours == theirs, self.difference(here, kinds, ours, theirs)
        return len(asked) + len(kinds)

    def difference(self, here: Any, asked: Any, ours: str, theirs: str) -> str:
        differing = [each for each, one, other in zip(asked, ours, theirs, strict=False) if one != other]
        return "\n".join(map(str, [here, theirs, differing, *self.acls.values()]))


@pytest.mark.java
def test_both_authorizers_decide_the_same(kafka: AskedOracle, request: pytest.FixtureRequest) -> None:
    compare(kafka, request.config.getoption("--acl-decisions"))


def test_decisions_are_those_that_kafka_made(recorded: Play) -> None:
    compare(recorded(started), RECORDED)


def compare(kafka: Asked, wanted: int) -> None:
    decided, seed, allowed, denied = 0, 0, 0, 0
    while decided < wanted:
        world = World(kafka, Random(seed))
        for _ in range(CHANGES):
            world.change()
            decided += sum(world.compare() for _ in range(len(PEOPLE)))
        allowed, denied = allowed + world.ours.allowed_count, denied + world.ours.denied_count
        seed += 1
    print(f"{decided} decisions about {seed} worlds are the same; {allowed} allow, {denied} deny")
    assert min(allowed, denied) > wanted / 20


@pytest.mark.java
def test_the_wildcard_covers_names_that_begin_with_an_asterisk_too(kafka: AskedOracle) -> None:
    """Kafka overlooks the ACLs of all names there, so that its DENY for all groups leaves such groups alone."""
    world = World(kafka, Random(0))
    world.ours = Authorizer(frozenset(), allows_without_acl=True)
    kafka.ask_for_line("begin", "", "true")
    denial = AclContent(ResourceType.GROUP, "*", PatternType.LITERAL, "User:a", "*", AclOperation.READ, Permission.DENY)
    record = Acl(id=bytes(15) + b"\1", **denial._asdict())
    world.ours.acls_changed({record.id: record}, [record.id])
    kafka.ask_for_line("records", base64.b64encode(encode_record(record, 0)).decode())
    names = ("a", "*", "*a")
    words = [word for name in names for word in (int(AclOperation.READ), int(ResourceType.GROUP), name)]
    assert kafka.ask_for_line("ask", "User", "a", "10.0.0.7", *words) == "--+"
    asked = (Principal("User", "a"), "10.0.0.7", AclOperation.READ, ResourceType.GROUP)
    assert [world.ours.allows(*asked, name) for name in names] == [False, False, False]
