"""A user behind TLS, a login by SCRAM and an authorizer, which allows it everything by ACLs: for suites that play the
same with security.

`USER` is no super user: the authorizer decides about each of its requests. Only PLAINTEXT is open, for the suite.
"""

import secrets
import ssl
from pathlib import Path
from typing import Final

from kpybroker.machines.sasl.scram import SCRAM_SHA_512
from kpybroker.machines.sasl.scram_client import ScramClient
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kpywire.messages.create_acls import CreateAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from oracle import BrokerProcess, free_port
from oracle.process import HOST
from support.access import SCRAM_MODULE, Access, logged_in
from support.admin_requests import acl, acl_filter
from support.certificates import Authority
from support.raw_client import RawClient
from support.raw_requests import creation, topic_named
from support.secured import NODE, SECURED, USER, USER_PASSWORD

AUTHORIZED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{NODE}",
}
RESOURCES: Final = {2: "*", 3: "*", 4: "kafka-cluster", 5: "*", 6: "*", 7: "*"}
"""All resources, by the code of their type: topics, groups, the cluster, transactional ids, tokens and users."""
AUTHORITY: Final = "authority.pem"
"""The file that clients trust, in the directory of `secure`."""
ITERATIONS: Final = 4096


def secure(broker: BrokerProcess, directory: Path) -> Access:
    """Give a broker that is not started yet an authorizer, and SECURED beside its other listeners. How its user reaches
    it, who is let in by `admit`."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    keys = authority.issue().save_pem(directory / "node.pem")
    trusted = authority.save(directory / AUTHORITY)
    address = f"{HOST}:{free_port()}"
    properties: dict[str, str] = broker.properties  # type: ignore[attr-defined]
    properties |= {
        **AUTHORIZED,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{SECURED}:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.secured.sasl.enabled.mechanisms": SCRAM_SHA_512.name,
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
    }
    for name in ("listeners", "advertised.listeners"):
        properties[name] += f",{SECURED}://{address}"
    return logged_in(address, USER, USER_PASSWORD, authority=trusted)


def admit(administrator: RawClient) -> None:
    """Let `USER` log in, and allow it everything."""
    salt = secrets.token_bytes(16)
    upsertion = ScramCredentialUpsertion(
        name=USER,
        mechanism=SCRAM_SHA_512.code,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=SCRAM_SHA_512.salted_password(USER_PASSWORD, salt, ITERATIONS),
    )
    (result,) = administrator.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]), 0).results
    assert not result.error_code, result.error_message
    allow(administrator)


def allow(administrator: RawClient) -> None:
    """Allow `USER` everything, by an ACL for each kind of resource. Those that are there stay."""
    user = f"User:{USER}"
    creations = [acl(name, resource_type=kind, principal=user) for kind, name in RESOURCES.items()]
    answer = administrator.call(CreateAclsRequest(creations=creations), 3)
    assert {each.error_code for each in answer.results} == {0}


def is_allowed(administrator: RawClient) -> bool:
    """Whether the ACLs of `allow` are there."""
    found = administrator.call(DescribeAclsRequest(**acl_filter(principal_filter=f"User:{USER}")), 3).resources
    return {each.resource_type for each in found} >= RESOURCES.keys()


def is_served(client: RawClient) -> bool:
    """Whether the broker and its controller know that `USER`, whose connection this is, is allowed everything."""
    (topic,) = client.call(creation(topic_named("asked"), validate_only=True), 7).topics
    return not (topic.error_code or client.call(DescribeAclsRequest(**acl_filter()), 3).error_code)


def connect_secured(port: int, authority: Path, timeout_s: float = 30.0) -> RawClient:
    """A connection of `USER` to SECURED."""
    client = RawClient(port, timeout_s=timeout_s)
    client.sock = ssl.create_default_context(cafile=str(authority)).wrap_socket(client.sock, server_hostname=HOST)
    client.call(SaslHandshakeRequest(mechanism=SCRAM_SHA_512.name), 1)
    exchange = ScramClient(SCRAM_SHA_512, USER, USER_PASSWORD, secrets.token_hex(12))
    message: bytes | None = exchange.first()
    while message is not None:
        answer = client.call(SaslAuthenticateRequest(auth_bytes=message), 2)
        assert not answer.error_code, answer.error_message
        message = exchange.respond(answer.auth_bytes)
    assert exchange.is_complete
    return client
