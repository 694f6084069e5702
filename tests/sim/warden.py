"""An operator who changes ACLs, client quotas and users under load, and in the end sees everywhere what was last set.

What nobody answered may come to pass at any later moment, so of such a key nothing is known any more.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

from .acls import (
    ALL,
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    Acl,
)
from .client import Client, NoAnswer
from .identities import GUESTS
from .quota_rules import ABSENT, DEFAULT, Place

ANY = 1
MOST_MADE = 12
"""ACLs that one request creates, at most."""
RESOURCES = (
    (TOPIC, "ga", LITERAL),
    (TOPIC, "gab", LITERAL),
    (TOPIC, "gb", LITERAL),
    (TOPIC, "g", PREFIXED),
    (TOPIC, "ga", PREFIXED),
    (TOPIC, "gx", PREFIXED),
    (TOPIC, "*", LITERAL),
    (CLUSTER, CLUSTER_NAME, LITERAL),
)
OF_TOPICS = (WRITE, WRITE, WRITE, READ, READ, DESCRIBE, CREATE, DELETE, ALL)
OF_CLUSTER = (CREATE, DELETE)
PLACES: tuple[Place, ...] = (
    ("guest0", ABSENT),
    ("guest1", ABSENT),
    ("guest1", "10.0.0.2"),
    ("guest1", DEFAULT),
    (ABSENT, "10.0.0.1"),
    (ABSENT, "10.0.0.0"),
)
LIMITS = {
    "producer_byte_rate": (300.0, 3_000.0),
    "consumer_byte_rate": (300.0, 3_000.0),
    "request_percentage": (0.001, 50.0),
    "controller_mutation_rate": (0.5, 10.0),
}
USERS = ("alice", "bob")
MECHANISMS = (1, 2)
ITERATIONS = (4_096, 8_192)
UNDECIDED = (error_codes.REQUEST_TIMED_OUT, error_codes.NOT_CONTROLLER, error_codes.UNKNOWN_SERVER_ERROR)

Key = Any
"""An ACL, a place and kind of quotas, or a user and mechanism."""


class Warden:
    """Changes one thing after the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.known: dict[Key, Any] = {}
        """The values that were last set and answered: whether an ACL is there, a quota, the iterations of a credential;
        None for nothing."""
        self._unknown: set[Key] = set()

    async def work(self) -> None:
        """For as long as the simulation goes on."""
        client, rng = self.client, self.client.rng
        await self._create([Acl(TOPIC, "g", PREFIXED, f"User:{user}", "*", WRITE, ALLOW) for user in GUESTS.values()])
        while not client.is_over:
            await rng.choice(
                (self._create_any, self._create_any, self._delete, self._limit, self._limit, self._enrol)
            )()
            await client.pause(rng.choice((20, 300)))

    async def rest(self) -> None:
        """Take all quotas back, so that nobody waits for ever."""
        while True:
            left = [(place, kind) for place in PLACES for kind in LIMITS]
            if await self._set_quotas(dict.fromkeys(left)):
                return
            await self.client.pause(300)

    # Changes

    async def _create_any(self) -> None:
        await self._create([self._any_acl() for _ in range(self.client.rng.randint(1, MOST_MADE))])

    async def _create(self, made: Sequence[Acl]) -> None:
        creations = [
            AclCreation(
                resource_type=each.kind,
                resource_name=each.name,
                resource_pattern_type=each.pattern,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in made
        ]
        answer = await self._ask(CreateAclsRequest(creations=creations), made)
        if answer is not None:
            for acl, result in zip(made, answer.results, strict=True):
                self._note(acl, is_there, result.error_code)

    def _any_acl(self) -> Acl:
        rng = self.client.rng
        kind, name, pattern = rng.choice(RESOURCES)
        user, host = rng.choice(("guest0", "guest1", "*")), rng.choice(("*", "*", *GUESTS))
        operation = rng.choice(OF_TOPICS if kind == TOPIC else OF_CLUSTER)
        permission = ALLOW if rng.random() < 0.85 else DENY
        return Acl(kind, name, pattern, f"User:{user}", host, operation, permission)

    async def _delete(self) -> None:
        rng = self.client.rng
        there = [key for key, value in self.known.items() if isinstance(key, Acl) and value]
        if not there:
            return
        one = rng.choice(there)
        is_exact = rng.random() < 0.6
        wanted = DeleteAclsFilter(
            resource_type_filter=one.kind,
            resource_name_filter=one.name if is_exact else None,
            pattern_type_filter=one.pattern if is_exact else ANY,
            principal_filter=one.principal,
            host_filter=one.host if is_exact else None,
            operation=one.operation,
            permission_type=one.permission,
        )
        gone = [each for each in there if each == one or (not is_exact and _is_like(each, one))]
        answer = await self._ask(DeleteAclsRequest(filters=[wanted]), gone)
        if answer is not None:
            for acl in gone:
                self._note(acl, None, answer.filter_results[0].error_code)

    async def _limit(self) -> None:
        rng = self.client.rng
        place, kinds = rng.choice(PLACES), rng.sample(list(LIMITS), rng.randint(1, 3))
        await self._set_quotas({(place, kind): rng.choice((*LIMITS[kind], LIMITS[kind][0], None)) for kind in kinds})

    async def _set_quotas(self, wanted: dict[tuple[Place, str], float | None]) -> bool:
        """Whether it is done."""
        entries: dict[Place, list[OpData]] = {}
        for (place, kind), value in wanted.items():
            entries.setdefault(place, []).append(OpData(key=kind, value=value or 0.0, remove=value is None))
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    entity=[
                        AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                        for kind, name in zip(("user", "client-id"), place, strict=True)
                        if name != ABSENT
                    ],
                    ops=ops,
                )
                for place, ops in entries.items()
            ],
            validate_only=False,
        )
        answer = await self._ask(request, wanted)
        if answer is None:
            return False
        code = max(each.error_code for each in answer.entries)
        for key, value in wanted.items():
            self._note(key, value, code)
        return code == error_codes.NONE

    async def _enrol(self) -> None:
        rng = self.client.rng
        key = user, mechanism = rng.choice(USERS), rng.choice(MECHANISMS)
        iterations = rng.choice((*ITERATIONS, None))
        deletion = [] if iterations else [ScramCredentialDeletion(name=user, mechanism=mechanism)]
        upsertion = [] if not iterations else [
            ScramCredentialUpsertion(
                name=user, mechanism=mechanism, iterations=iterations, salt=b"s", salted_password=bytes(32 * mechanism)
            )
        ]  # fmt: skip
        request = AlterUserScramCredentialsRequest(deletions=deletion, upsertions=upsertion)
        answer = await self._ask(request, [key])
        if answer is not None and answer.results[0].error_code != error_codes.RESOURCE_NOT_FOUND:
            self._note(key, iterations, answer.results[0].error_code)

    async def _ask(self, request: Any, keys: Iterable[Key]) -> Any:
        """The answer; None if there was none, and of these keys nothing is known any more."""
        try:
            answer = await self.client.ask(self.client.any_node(), request)
        except NoAnswer:
            for key in keys:
                self._forget(key)
            return None
        self.client.world.tell(f"warden: {type(request).__name__} of {len(list(keys))}")
        return answer

    def _note(self, key: Key, value: Any, code: int) -> None:
        if code in UNDECIDED:
            self._forget(key)
        elif code != error_codes.NONE:
            self.client.world.violated(f"the warden may not change {key}: {error_codes.name(code)}")
        elif key not in self._unknown:
            self.known[key] = value

    def _forget(self, key: Key) -> None:
        self._unknown.add(key)
        self.known.pop(key, None)

    # The end

    async def look(self, client: Client) -> str:
        """The first thing that a node reports otherwise than it was set; nothing if all is well. Raises NoAnswer."""
        for node_id in client.nodes:
            reported = {
                **await _acls(client, node_id),
                **await _quotas(client, node_id),
                **await _users(client, node_id),
            }
            for key, value in self.known.items():
                if reported.get(key) != value:
                    return f"n{node_id} has {key}: {reported.get(key)}, and {value} was set"
        return ""


is_there = True


def _is_like(one: Acl, other: Acl) -> bool:
    """Whether a filter of all names and hosts finds both."""
    return one._replace(name="", pattern=0, host="") == other._replace(name="", pattern=0, host="")


async def _acls(client: Client, node_id: int) -> dict[Key, Any]:
    request = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = await client.ask(node_id, request)
    return {
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        ): is_there
        for resource in answer.resources
        for acl in resource.acls
    }


async def _quotas(client: Client, node_id: int) -> dict[Key, Any]:
    answer = await client.ask(node_id, DescribeClientQuotasRequest(components=[], strict=False))
    found: dict[Key, Any] = {}
    for entry in answer.entries or ():
        names = {each.entity_type: each.entity_name for each in entry.entity}
        place = names.get("user", ABSENT), names.get("client-id", ABSENT)
        found |= {(place, each.key): each.value for each in entry.values}
    return found


async def _users(client: Client, node_id: int) -> dict[Key, Any]:
    answer = await client.ask(node_id, DescribeUserScramCredentialsRequest(users=None))
    return {(user.user, info.mechanism): info.iterations for user in answer.results for info in user.credential_infos}
