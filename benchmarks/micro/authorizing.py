"""Decisions of the authorizer: remembered, and made among ten thousand ACLs; and one SCRAM login without its frames."""

import uuid
from collections.abc import Callable, Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any

from benchmarks.micro.clock import Operation
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.resources import AclOperation as Allowed
from kpybroker.machines.authorization.resources import PatternType, Permission, ResourceType
from kpybroker.machines.sasl import scram
from kpybroker.machines.sasl.made_up_credentials import MadeUpCredentials
from kpybroker.machines.sasl.scram_client import ScramClient
from kpybroker.machines.sasl.scram_server import ScramLogin, ScramServer
from kpybroker.requests.serving.permissions import may
from kpybroker.runtime.calls.principal import Principal
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl

ACLS = 10_000
USERS = 100
HOST = "127.0.0.1"
PREFIXED_EVERY = 10


def operations() -> Iterator[Operation]:
    authorizer = Authorizer(frozenset(), allows_without_acl=False)
    acls = {acl.id: acl for acl in map(acl_of, range(ACLS))}
    authorizer.acls_changed(acls, acls)
    user = Principal("User", "user-7")
    node, call = SimpleNamespace(authorizer=authorizer), SimpleNamespace(principal=user, host=HOST, api_key=0)
    anonymous = SimpleNamespace(authorizer=None)
    yield Operation("remembered decision", deciding(authorizer, user, "topic-107"))
    yield Operation("remembered, as handlers ask", asking(node, call, "topic-107"))
    yield Operation("without an authorizer, as handlers ask", asking(anonymous, call, "topic-107"))
    yield Operation(f"new decision among {ACLS} ACLs, by name", deciding_anew(authorizer, user, "topic-{}"))
    yield Operation(f"new decision among {ACLS} ACLs, by prefix", deciding_anew(authorizer, user, "prefix-0{}"))
    yield Operation("SCRAM-SHA-256, both messages", logging_in())


def acl_of(number: int) -> Acl:
    is_prefix = number % PREFIXED_EVERY == 0
    return Acl(
        id=uuid.UUID(int=number + 1).bytes,
        resource_type=ResourceType.TOPIC,
        resource_name=f"prefix-{number:04}"[: 7 + number % 5] if is_prefix else f"topic-{number}",
        pattern_type=PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        principal=f"User:user-{number % USERS}",
        host="*",
        operation=Allowed.READ,
        permission_type=Permission.ALLOW,
    )


def deciding(authorizer: Authorizer, user: Principal, name: str) -> Callable[[], object]:
    return lambda: authorizer.decide(user, HOST, Allowed.READ, ResourceType.TOPIC, name)


def asking(node: Any, call: Any, name: str) -> Callable[[], object]:
    return lambda: may(node, call, Allowed.READ, ResourceType.TOPIC, name)


def deciding_anew(authorizer: Authorizer, user: Principal, pattern: str) -> Callable[[], object]:
    """Names in turn, more than are remembered, so that each is forgotten before it comes again."""
    names = cycle([pattern.format(number) for number in range(60_000)])
    decide = authorizer.decide
    return lambda: decide(user, HOST, Allowed.READ, ResourceType.TOPIC, next(names))


def logging_in() -> Callable[[], object]:
    """The server's half; the client's messages are made before, since the nonces are always the same."""
    mechanism = scram.SCRAM_SHA_256
    salt = b"salt"
    credential = mechanism.credential(mechanism.salted_password("secret", salt, 4096), salt, 4096)
    login = ScramLogin(credential, "alice")
    strangers = MadeUpCredentials(lambda: b"secret of the nodes")

    def server() -> ScramServer:
        return ScramServer(
            mechanism, lambda _name, _by_token: login, "nonce", lambda name, _by_token: strangers.of(mechanism, name)
        )

    client = ScramClient(mechanism, "alice", "secret", nonce="of-client")
    first = client.first()
    final = client.respond(server().respond(first))
    assert final is not None

    def once() -> object:
        exchange = server()
        exchange.respond(first)
        return exchange.respond(final)

    return once
