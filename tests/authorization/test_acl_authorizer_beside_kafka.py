"""Random ACLs and questions, answered by our authorizer of ZooKeeper mode and by Kafka 3.9's ``AclAuthorizer``."""

import base64
from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from kpybroker.config.authorizer_configs import super_users
from kpybroker.machines.authorization.acl_authorizer import AclAuthorizer
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.zookeeper.broker import protection_records
from kpybroker.machines.zookeeper.tree import acls
from kpybroker.machines.zookeeper.tree.acls import AclEntry, ResourcePattern
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.calls.principal import Principal
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from oracle.asked import AskedOracle
from oracle.jars import KAFKA_BEFORE_4
from oracle.recorded import Asked, Play

SUPER: Final = "User:super; User:CN=a,O=b "
PRINCIPALS: Final = ("User:a", "User:b", "User:*", "User:a:b", "Team:a", "Team:*", "User:CN=a,O=b")
PEOPLE: Final = tuple(each.partition(":") for each in (*PRINCIPALS, "User:super"))
HOSTS: Final = ("10.0.0.7", "10.0.0.8", "::1")
ACL_HOSTS: Final = ("*", "*", "10.0.0.7", "0:0:0:0:0:0:0:1", "nonsense!", "")
NAMES: Final = ("a", "b", "aa", "ab", "ba", "aab", "abb", "*", "a*", "hardcode", "h", "é", "aé")
TYPES: Final = tuple(ResourceType)[2:]
OPERATIONS: Final = tuple(each for each in tuple(AclOperation)[2:] if each != AclOperation.TWO_PHASE_COMMIT)
QUESTIONS: Final = 40
RECORDED: Final = 6_000


def started() -> AskedOracle:
    return AskedOracle("AclAuthorizerOracle.java", "AclAuthorizerOracle", release=KAFKA_BEFORE_4)


@pytest.fixture(scope="module")
def kafka() -> Iterator[AskedOracle]:
    oracle = started()
    yield oracle
    oracle.close()


class World:
    """The same ACLs here and in Kafka."""

    def __init__(self, kafka: Asked, rng: Random) -> None:
        self.kafka, self.rng = kafka, rng
        everyone = rng.random() < 0.4
        self.ours = AclAuthorizer(super_users({"super.users": SUPER}), allows_without_acl=everyone)
        self.known: dict[ResourcePattern, list[AclEntry]] = {}
        self.records: dict[bytes, AccessControlEntryRecord] = {}
        kafka.ask_for_line("begin", SUPER, str(everyone).lower())

    def change(self) -> None:
        """Replace the ACLs of some resources."""
        rng = self.rng
        for _ in range(rng.choice((1, 3, 10))):
            kind = rng.choice(TYPES[: rng.choice((1, 2, 6))])
            resource = ResourcePattern(kind, rng.choice(NAMES), rng.choice((PatternType.LITERAL, PatternType.PREFIXED)))
            wanted = list(dict.fromkeys(self._entry() for _ in range(rng.choice((0, 1, 1, 3, 6)))))
            before = self.known.get(resource, [])
            changed = []
            for each in protection_records.acls(resource, before, wanted):
                changed.append(each.id)
                if isinstance(each, AccessControlEntryRecord):
                    self.records[each.id] = each
                else:
                    del self.records[each.id]
            self.known[resource] = wanted
            self.ours.acls_changed(self.records, changed)
            content = base64.b64encode(acls.encode_acls(wanted)).decode()
            self.kafka.ask_for_line("acls", int(kind), int(resource.pattern), resource.name, content)

    def _entry(self) -> AclEntry:
        rng = self.rng
        permission = Permission.ALLOW if rng.random() < 0.7 else Permission.DENY
        return AclEntry(rng.choice(PRINCIPALS), permission, rng.choice(ACL_HOSTS), rng.choice(OPERATIONS))

    def compare(self) -> None:
        rng = self.rng
        principal_type, _, name = rng.choice(PEOPLE)
        address = rng.choice(HOSTS)
        here = Principal(principal_type, name), java_address(address)
        asked = [(rng.choice(OPERATIONS), rng.choice(TYPES), rng.choice(NAMES)) for _ in range(QUESTIONS)]
        words = [word for operation, kind, named in asked for word in (int(operation), int(kind), named)]
        theirs = self.kafka.ask_for_line("ask", principal_type, name, address, *words)
        ours = "".join("-+"[self.ours.allows(*here, *question)] for question in asked)
        assert ours == theirs, (
            here,
            [each for each, one, other in zip(asked, ours, theirs, strict=True) if one != other],
        )
        kinds = [(operation, kind) for operation in OPERATIONS for kind in TYPES]
        words = [int(word) for pair in kinds for word in pair]
        theirs = self.kafka.ask_for_line("any", principal_type, name, address, *words)
        ours = "".join("-+"[self.ours.allows_any(*here, *question)] for question in kinds)
        assert ours == theirs, (
            here,
            [each for each, one, other in zip(kinds, ours, theirs, strict=True) if one != other],
        )


@pytest.mark.java
def test_both_authorizers_decide_the_same(kafka: AskedOracle, request: pytest.FixtureRequest) -> None:
    compare(kafka, request.config.getoption("--acl-decisions"))


def test_decisions_are_those_that_kafka_made(recorded: Play) -> None:
    compare(recorded(started), RECORDED)


def compare(kafka: Asked, wanted: int) -> None:
    seed, allowed, denied = 0, 0, 0
    while allowed + denied < wanted:
        world = World(kafka, Random(seed))
        seed += 1
        for _ in range(4):
            world.change()
            for _ in range(6):
                world.compare()
        allowed, denied = allowed + world.ours.allowed_count, denied + world.ours.denied_count
    print(f"{allowed} decisions about {seed} worlds allow, {denied} deny; all are the same")
    assert min(allowed, denied) > wanted / 20
