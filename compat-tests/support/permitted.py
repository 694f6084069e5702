"""The permissions of clients, beside Apache Kafka: users with one permission each, and what shows of a response."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from kpywire import api
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from support.raw_client import RawClient

PASSWORD = "secret"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, ALLOW = 3, 3
NAMES = {TOPIC: "*", GROUP: "*", CLUSTER: "kafka-cluster", TRANSACTIONAL_ID: "*"}
PERMISSIONS = {
    "topic": (TOPIC, (3, 4, 5, 6, 7, 8, 10, 11)),
    "group": (GROUP, (3, 6, 8, 10, 11)),
    "cluster": (CLUSTER, (5, 7, 8, 9, 10, 11, 12)),
    "transactional": (TRANSACTIONAL_ID, (4, 8)),
}
SINGLE = {f"{kind}-{code}": (resource, code) for kind, (resource, codes) in PERMISSIONS.items() for code in codes}
"""Each permission by a name."""
UNPRIVILEGED = "nobody"
SHOWN = frozenset(
    {"name", "topic", "topic_name", "group_id", "key", "resource_name", "resource_type", "transactional_id",
     "partition_index", "partition", "index", "authorized_operations", "topic_authorized_operations",
     "cluster_authorized_operations", "is_internal"}
)  # fmt: skip
"""The fields that are compared, beside errors: what tells a client of a resource."""

REQUEST = re.compile(r"Request Request\(.*\) (?=needs )", re.DOTALL)
"""The text of a request in Kafka's errors, with addresses and numbers of connections."""


def user_without(permission: str) -> str:
    """The name of the user with every permission but this one."""
    return f"not-{permission}"


def users() -> dict[str, list[str]]:
    """All users with their permissions: nobody, one for each permission, and one for each that is missing."""
    without = {user_without(missing): [each for each in SINGLE if each != missing] for missing in SINGLE}
    return {UNPRIVILEGED: [], **{name: [name] for name in SINGLE}, **without}


def allow(client: RawClient) -> None:
    """Give every user its permissions."""
    creations = [
        AclCreation(
            resource_type=SINGLE[permission][0],
            resource_name=NAMES[SINGLE[permission][0]],
            resource_pattern_type=LITERAL,
            principal=f"User:{name}",
            host="*",
            operation=SINGLE[permission][1],
            permission_type=ALLOW,
        )
        for name, permissions in users().items()
        for permission in permissions
    ]
    answer = client.call(CreateAclsRequest(creations=creations), 3)
    assert {each.error_code for each in answer.results} == {0}


def jaas() -> str:
    """The users for Apache Kafka's PLAIN."""
    named = " ".join(f'user_{name}="{PASSWORD}"' for name in users())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {named};"


def logged_in(port: int, user: str) -> RawClient:
    """A connection of this user to Apache Kafka."""
    client = RawClient(port)
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    answer = client.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{PASSWORD}".encode()), 2)
    assert answer.error_code == 0, answer.error_message
    return client


def shown(message: Any) -> Any:
    """The part of a response that a client learns from: its errors, names and operations. Lists are sorted."""
    if isinstance(message, list):
        return sorted((shown(each) for each in message), key=repr)
    fields = getattr(type(message), "FIELDS", None)
    if fields is None:
        return None if isinstance(message, bytes | int | bool) else message
    found = {}
    for name in fields:
        if name == "nodes":  # its listeners are named otherwise
            continue
        value = getattr(message, name)
        if name.endswith("error_code") or name in SHOWN:
            found[name] = value
        elif name.endswith("error_message"):
            found[name] = REQUEST.sub("Request ", value or "")
        elif isinstance(value, list) and value and hasattr(type(value[0]), "FIELDS"):
            found[name] = shown(value)
    return sorted(found.items())


class Asking:
    """A user's requests to one node. A connection that the node closes is replaced."""

    def __init__(self, connect: Callable[[], RawClient]) -> None:
        self._connect = connect
        self._client = connect()

    def answer(self, request: Any, version: int) -> Any:
        """The answer for the user; the kind of the error if the node closes the connection."""
        try:
            return shown(self._client.call(request, version))
        except (ConnectionError, TimeoutError) as error:
            self.close()
            self._client = self._connect()
            return type(error).__name__

    def close(self) -> None:
        self._client.sock.close()


def asked_of(versions: dict[int, tuple[int, int]], *, every: bool) -> Iterator[tuple[int, int]]:
    """The (api key, version) pairs to play: the oldest and newest versions, or every one."""
    left_out = {api.API_VERSIONS, api.SASL_HANDSHAKE, api.SASL_AUTHENTICATE}
    left_out |= {api.CREATE_DELEGATION_TOKEN, api.DESCRIBE_DELEGATION_TOKEN}  # the way of the login decides first
    left_out |= {api.RENEW_DELEGATION_TOKEN, api.EXPIRE_DELEGATION_TOKEN}
    for key, (first, last) in versions.items():
        if key not in left_out:
            yield from ((key, version) for version in (range(first, last + 1) if every else sorted({first, last})))
