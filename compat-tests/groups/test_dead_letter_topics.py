"""The dead-letter topic of a share group is deleted, closed or denied midway (KIP-1191), on both programs alike.

The records that are rejected meanwhile are archived without dead letters, and the group says why. Once the topic is
back, dead letters are written again.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from kpybroker.cli import main
from kpywire.messages.create_acls import CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from oracle import BrokerProcess, free_port
from oracle.process import HOST
from support.admin_requests import acl, acl_filter
from support.raw_client import RawClient, connect
from support.share_group_requests import describing
from support.targets import TARGETS
from support.waiting import eventually

ENABLED = "errors.deadletterqueue.group.enable"
NODE = "User:node"
"""The principal of brokers at each other. Clients are ANONYMOUS, which may do everything."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
WRITE, DENY = 4, 2
SHARING = {
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,NODES:SASL_PLAINTEXT",
    "inter.broker.listener.name": "NODES",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.nodes.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.nodes.plain.sasl.jaas.config": f'{PLAIN} required username="node" password="p" user_node="p";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def broker(startable_target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that is a client with a login to itself, and whose authorizer allows what no ACL names."""
    made: Any = TARGETS[startable_target](SHARING | SECURED, directory=tmp_path_factory.mktemp("broker"))
    port = free_port()
    for name in ("listeners", "advertised.listeners"):
        made.properties[name] += f",NODES://{HOST}:{port}"
    with made as running:
        yield running


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with connect(broker.bootstrap_servers) as connected:
        yield connected


class Rejecting:
    """A share group whose members reject every record of a topic of the same name, and its dead-letter topic."""

    def __init__(self, broker: BrokerProcess, client: RawClient, name: str) -> None:
        self.broker = broker
        self.client = client
        self.name = name
        self.letters = f"dlq.{name}"
        self.produced = 0
        self.run("topics", "create", name)
        self.create_letters()
        for setting in ("share.auto.offset.reset=earliest", f"errors.deadletterqueue.topic.name={self.letters}"):
            self.run("configs", "alter", "--group", name, "--set", setting)

    def run(self, *words: str, given: str = "") -> str:
        result = CliRunner().invoke(main, [*words, "-b", self.broker.bootstrap_servers], input=given)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def create_letters(self) -> None:
        self.run("topics", "create", self.letters, "--config", f"{ENABLED}=true")

    def reject(self, count: int) -> None:
        """Records come and are rejected, until the group is done with all of them."""
        values = [f"{number}\n" for number in range(self.produced, self.produced + count)]
        self.run("produce", self.name, given="".join(values))
        self.produced += count
        words = ("-q", "--timeout-ms", "60000", "--ack", "reject", "-c", str(count))
        shown = self.run("share", "consume", self.name, self.name, *words)
        assert sorted(shown.splitlines(keepends=True)) == sorted(values)
        eventually(lambda: self.lag() == 0, "all records to be archived")

    def lag(self) -> int:
        (group,) = self.client.call(describing(self.name, self.name), 1).groups
        return int(group.topics[0].partitions[0].lag)

    def offsets(self) -> list[int]:
        """The offsets of the records that have dead letters."""
        listed = json.loads(self.run("share", "dead-letters", "list", self.name, "--json"))
        return sorted(each["offset"] for each in listed)

    def described(self) -> str:
        return self.run("groups", "describe", self.name)

    def close(self) -> None:
        self.run("configs", "alter", "--topic", self.letters, "--set", f"{ENABLED}=false")
        self.settle()

    def open(self) -> None:
        self.run("configs", "alter", "--topic", self.letters, "--set", f"{ENABLED}=true")
        self.settle()

    def delete(self) -> None:
        self.run("topics", "delete", self.letters)
        self.settle()

    def deny(self) -> None:
        denied = acl(self.letters, principal=NODE, operation=WRITE, permission_type=DENY)
        (answer,) = self.client.call(CreateAclsRequest(creations=[denied]), 3).results
        assert not answer.error_code, answer.error_message
        self.settle()

    def allow(self) -> None:
        each = DeleteAclsFilter(**acl_filter(principal_filter=NODE))
        self.client.call(DeleteAclsRequest(filters=[each]), 3)
        self.settle()

    def settle(self) -> None:
        """A change that comes later is seen: so is what came before."""
        self.run("topics", "create", f"later-{secrets.token_hex(4)}")


ENDINGS: dict[str, tuple[Callable[[Rejecting], None], Callable[[Rejecting], None], list[int], str]] = {
    "deleted": (Rejecting.delete, Rejecting.create_letters, [3], "DLQ topic does not exist"),
    "closed": (Rejecting.close, Rejecting.open, [0, 3], "DLQ is not enabled on configured DLQ topic"),
    "denied": (Rejecting.deny, Rejecting.allow, [0, 3], ""),
}
"""The end of the topic, its return, the offsets with dead letters afterwards, and the reason that the group shows."""


@pytest.mark.parametrize("ending", ENDINGS)
def test_dead_letters_go_on_when_their_topic_may_have_them_again(
    broker: BrokerProcess, client: RawClient, ending: str
) -> None:
    end, restore, offsets, reason = ENDINGS[ending]
    group = Rejecting(broker, client, ending)
    group.reject(1)
    eventually(lambda: group.offsets() == [0], "the first dead letter")
    end(group)
    group.reject(2)
    assert reason in group.described()
    restore(group)
    group.reject(1)
    eventually(lambda: group.offsets() == offsets, lambda: f"{offsets}, and found {group.offsets()}")
    assert "none are written" not in group.described()
