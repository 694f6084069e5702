"""A broker with an authorizer under a controller without one is warned of, and the reverse."""

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.sasl.jaas import PLAIN_MODULE
from kpybroker.node.assembly.compared_authorizers import NONE_HERE, NONE_OF_CONTROLLER
from kpybroker.node.assembly.security import ACLS_WITHOUT_EFFECT
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from support.raw_client import RawClient
from support.waiting import eventually
from tests.cluster.running_cluster import RunningCluster
from tests.guards.named_clients import AUTHORIZER

NONE: Mapping[str, str] = {}


class MixedCluster(RunningCluster):
    """A controller (1) and a broker (2) with configs of their own."""

    def __init__(self, directory: Path, *own: Mapping[str, str]) -> None:
        self._own = own
        super().__init__(directory, ["controller", "broker"])

    def config(self, node_id: int) -> BrokerConfig:
        config, own = super().config(node_id), dict(self._own[node_id - 1])
        if node_id == 2:
            mapping = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT"
            own |= {
                "listeners": f"{config.originals['listeners']},SASL://127.0.0.1:0",
                "listener.security.protocol.map": mapping,
                "sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="b";',
            }
        return BrokerConfig.load(None, {**config.originals, **own})


@pytest.mark.parametrize(
    ("controller", "broker", "expected"),
    [
        (AUTHORIZER, AUTHORIZER, None),
        (NONE, NONE, None),
        (NONE, AUTHORIZER, NONE_OF_CONTROLLER % 1),
        (AUTHORIZER, NONE, NONE_HERE % 1),
    ],
    ids=["both have one", "none has one", "the broker alone", "the controller alone"],
)
def test_a_broker_warns_unless_its_controller_is_like_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    controller: Mapping[str, str],
    broker: Mapping[str, str],
    expected: str | None,
) -> None:
    cluster = MixedCluster(tmp_path, controller, broker)
    try:
        with caplog.at_level(logging.WARNING, "kpybroker.authorizer"):
            cluster.start(1, 2)
            if expected is not None:
                eventually(lambda: expected in caplog.messages, "the warning")
            with RawClient(cluster.ports[1][1]) as raw:
                acl = AclCreation(
                    resource_type=2,
                    resource_name="t",
                    resource_pattern_type=3,
                    principal="User:a",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
                raw.call(CreateAclsRequest(creations=[acl]), 3)
            if controller and not broker:
                eventually(lambda: ACLS_WITHOUT_EFFECT in caplog.messages, "the warning about ACLs")
    finally:
        cluster.close()
    known = {expected, ACLS_WITHOUT_EFFECT if controller and not broker else None}
    assert {record.getMessage() for record in caplog.records if record.name == "kpybroker.authorizer"} <= known
    assert caplog.messages.count(ACLS_WITHOUT_EFFECT) <= 1
