"""A cluster in ZooKeeper mode with logins, ACLs, quotas, delegation tokens and encrypted passwords, which migrates."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kpybroker.machines.sasl import scram
from kpywire.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest
from oracle import free_port
from oracle.process import HOST
from support import permitted, quota_requests
from support.migration_clusters import Controller, MigratingCluster
from support.raw_client import RawClient
from support.zookeeper_clusters import BrokerOf
from support.zookeeper_secured import SECURED, logged_in, port_of

PROTOCOLS: Final = "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
PLAIN_CONFIG: Final = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
OF_KRAFT: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    "delegation.token.secret.key": SECURED["delegation.token.secret.key"],
}
OF_ZOOKEEPER: Final = {"password.encoder.secret": SECURED["password.encoder.secret"]}
MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4_096


class SecuredCluster(MigratingCluster):
    """Each broker has a listener with SASL, beside the one of brokers and of the test, whose user may do everything."""

    def __init__(self, directory: Path, brokers: Mapping[int, BrokerOf], controller_of: type[Controller]) -> None:
        super().__init__(directory, brokers, controller_of, properties=SECURED)
        self.of_controllers = {**OF_KRAFT, **OF_ZOOKEEPER, "listener.security.protocol.map": PROTOCOLS}
        self.of_brokers = {"listener.security.protocol.map": PROTOCOLS}
        self.secured = {broker_id: free_port() for broker_id in brokers}
        for broker_id, broker in self.brokers.items():
            listeners = f"PLAINTEXT://127.0.0.1:{port_of(broker)},SASL_PLAINTEXT://127.0.0.1:{self.secured[broker_id]}"
            broker.properties |= {"listeners": listeners, "advertised.listeners": listeners}  # type: ignore[attr-defined]

    def to_kraft(self, broker_id: int) -> None:
        self.brokers[broker_id].properties |= OF_KRAFT  # type: ignore[attr-defined]
        super().to_kraft(broker_id)

    def to_zookeeper(self, broker_id: int, *, takes_part: bool = True) -> None:
        self.brokers[broker_id].properties |= {key: SECURED[key] for key in OF_KRAFT}  # type: ignore[attr-defined]
        super().to_zookeeper(broker_id, takes_part=takes_part)

    @property
    def secured_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.secured.values())

    def ask(self, request: Any, version: int, broker_id: int = 1) -> Any:
        """The answer to the user that may do everything."""
        with RawClient(port_of(self.brokers[broker_id])) as raw:
            return raw.call(request, version)

    # What is set

    def add_user(self, name: str, password: str) -> bool:
        """Give a user a SCRAM credential; whether this broker could."""
        salted = scram.MECHANISMS[MECHANISM].salted_password(password, name.encode(), ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=1, iterations=ITERATIONS, salt=name.encode(), salted_password=salted
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion])
        return any(self.ask(request, 0, each).results[0].error_code == 0 for each in self.brokers)

    def allow(self, user: str, kind: int, name: str, operation: int) -> bool:
        """Give a user a permission; whether it was given."""
        creation = AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=permitted.LITERAL,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=permitted.ALLOW,
        )
        return self.ask(CreateAclsRequest(creations=[creation]), 3).results[0].error_code == 0

    def set_quota(self, names: Mapping[str, str | None], **quotas: float | None) -> None:
        with RawClient(port_of(self.brokers[1])) as raw:
            quota_requests.set_quotas(raw, names, **quotas)

    def set_plain_user(self, broker_id: int, name: str) -> bool:
        """Let one more user log in by PLAIN at one broker; its password is in a config that is a password."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        value = f'{module} required user_{name}="{permitted.PASSWORD}" user_admin="{permitted.PASSWORD}";'
        config = AlterableConfig(name=PLAIN_CONFIG, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name=str(broker_id), configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        return self.ask(request, 1, broker_id).responses[0].error_code == 0

    def new_token(self, user: str, password: str) -> tuple[str, str] | None:
        """The id and the secret of a token that a user makes; None if it does not get one."""
        request = CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
        )
        with RawClient(self.secured[1]) as raw:
            if not logged_in(raw, MECHANISM, user, password):
                return None
            created = raw.call(request, 3)
        return None if created.error_code else (created.token_id, b64encode(created.hmac).decode())

    # What holds

    def knows_user(self, broker_id: int, name: str, password: str, *, by_token: bool = False) -> bool:
        """Whether one logs in at a broker by SCRAM, and nobody with another password."""
        with RawClient(self.secured[broker_id]) as raw, RawClient(self.secured[broker_id]) as other:
            is_in = logged_in(raw, MECHANISM, name, password, by_token=by_token)
            return is_in and not logged_in(other, MECHANISM, name, "no" + password)

    def knows_plain_user(self, broker_id: int, name: str) -> bool:
        with RawClient(self.secured[broker_id]) as raw:
            raw.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            message = f"\0{name}\0{permitted.PASSWORD}".encode()
            return raw.call(SaslAuthenticateRequest(auth_bytes=message), 2).error_code == 0

    def lets_read(self, broker_id: int, user: str, password: str, topic: str) -> bool:
        """Whether a user may know of a topic that is not there, as a broker sees it."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        with RawClient(self.secured[broker_id]) as raw:
            assert logged_in(raw, MECHANISM, user, password)
            answer = raw.call(request, 9)
        return answer.topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION

    def quotas(self, broker_id: int) -> dict[str, dict[str, float]]:
        """All quotas, by their entities."""
        answer = self.ask(DescribeClientQuotasRequest(components=[], strict=False), 1, broker_id)
        return {
            ",".join(f"{part.entity_type}={part.entity_name}" for part in each.entity): {
                value.key: value.value for value in each.values
            }
            for each in answer.entries
        }

    def acls(self, broker_id: int) -> set[tuple[int, str, str, int]]:
        """All ACLs."""
        everything = DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        answer = self.ask(everything, 3, broker_id)
        return {
            (each.resource_type, each.resource_name, acl.principal, acl.operation)
            for each in answer.resources
            for acl in each.acls
        }
