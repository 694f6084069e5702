"""ACLs and quotas of a source are carried over by option, and deleted here when they are deleted there."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from two_clusters import TwoClusters, client_of, two_clusters

from kpybroker.cli.mirror import command
from kpybroker.client import acl_requests, config_requests, quota_requests
from kpybroker.client.acl_requests import AclBinding, AclBindingFilter
from kpybroker.client.mirror_requests import ALL_BROKERS
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.mirror_configs import CARRIED
from kpywire import error_codes
from support.waiting import eventually
from tests.broker.running_node import RunningNode
from tests.mirror.test_carrying import DENY, GROUP, TOPIC, WRITE, acl
from tests.mirror.test_mirror_node import create

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}


def acls(node: RunningNode) -> list[AclBinding]:
    with client_of(node) as client:
        return acl_requests.describe(client)


def quotas(node: RunningNode) -> dict[str, dict[str, float]]:
    with client_of(node) as client:
        return {quota_requests.described(each.names): dict(each.values) for each in quota_requests.find(client, {})}


def notes(clusters: TwoClusters) -> list[str]:
    with client_of(clusters.mirror) as client:
        (found,) = config_requests.describe(client, ALL_BROKERS, [CARRIED]) or [None]
        return [] if found is None else list(filter(None, (found.value or "").split(",")))


def run(clusters: TwoClusters, *words: str) -> str:
    done = CliRunner().invoke(command, [*words, "--bootstrap-server", f"127.0.0.1:{clusters.mirror.port}"])
    assert done.exit_code == 0, done.output
    return done.output


def test_acls_and_quotas_follow_the_source_until_the_failover(tmp_path: Path) -> None:
    with two_clusters(tmp_path, AUTHORIZED, AUTHORIZED) as clusters:
        create(clusters.source, "orders")
        carried = [
            AclBinding(*acl(TOPIC, "orders")),
            AclBinding(*acl(TOPIC, "orders", principal="User:b", operation=WRITE, permission_type=DENY)),
            AclBinding(*acl(GROUP, "*")),
        ]
        own, other = AclBinding(*acl(TOPIC, "own")), AclBinding(*acl(TOPIC, "other"))
        shared = AclBinding(*acl(GROUP, "shared"))
        with client_of(clusters.source) as client:
            acl_requests.create(client, [*carried, other, shared])
            quota_requests.alter(client, {"user": "a"}, {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0}, [])
            quota_requests.alter(client, {"user": "a", "client-id": None}, {"request_percentage": 50.0}, [])
            quota_requests.alter(client, {"ip": "127.0.0.9"}, {"connection_creation_rate": 9.0}, [])
            quota_requests.alter(client, {"user": "own"}, {"producer_byte_rate": 7.0}, [])
        with client_of(clusters.mirror) as client:
            acl_requests.create(client, [own, shared])
            quota_requests.alter(client, {"user": "own"}, {"producer_byte_rate": 8.0}, [])
        run(clusters, "create", "dr", "--topics", "orders", "--acls", "--quotas")
        eventually(lambda: acls(clusters.mirror) == sorted([*carried, own, shared]), "the ACLs are carried over")
        wanted = {
            "user a": {"producer_byte_rate": 1000.0, "consumer_byte_rate": 5.0},
            "user a, client-id (default)": {"request_percentage": 50.0},
            "user own": {"producer_byte_rate": 8.0},
        }
        eventually(lambda: quotas(clusters.mirror) == wanted, "the quotas are carried over")
        assert len(notes(clusters)) == len(carried) + 3

        with client_of(clusters.source) as client:
            acl_requests.delete(client, [AclBindingFilter(*carried[0]), AclBindingFilter(*shared)])
            quota_requests.alter(client, {"user": "a"}, {"producer_byte_rate": 2000.0}, ["consumer_byte_rate"])
        eventually(lambda: acls(clusters.mirror) == sorted([*carried[1:], own, shared]), "an ACL is deleted")
        wanted["user a"] = {"producer_byte_rate": 2000.0}
        eventually(lambda: quotas(clusters.mirror) == wanted, "a quota is changed, and another one deleted")
        eventually(lambda: len(notes(clusters)) == len(carried) + 1, "nothing else is noted")

        run(clusters, "failover", "dr", "--now")
        assert notes(clusters) == []
        assert acls(clusters.mirror) == sorted([*carried[1:], own, shared])


def test_a_source_without_an_authorizer_deletes_nothing(tmp_path: Path, caplog: Any) -> None:
    with two_clusters(tmp_path, {}, AUTHORIZED) as clusters:
        own = AclBinding(*acl(TOPIC, "orders"))
        with client_of(clusters.mirror) as client:
            acl_requests.create(client, [own])
        run(clusters, "create", "dr", "--topics", "orders", "--acls")
        eventually(lambda: "SECURITY_DISABLED" in caplog.text, "the reason is logged")
        assert acls(clusters.mirror) == [own]
        done = CliRunner().invoke(
            command, ["create", "dr", "--topics", "orders", "-b", f"127.0.0.1:{clusters.mirror.port}"]
        )
        assert "mirror dr exists: it has the topics orders and acls" in done.output


def test_acls_are_carried_over_from_a_source_that_does_not_describe_quotas(
    tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: object) -> None:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, "127.0.0.1:9092 is too old")

    there = AclBinding(*acl(TOPIC, "orders"))
    with two_clusters(tmp_path, AUTHORIZED, AUTHORIZED) as clusters:
        with client_of(clusters.mirror) as client:
            quota_requests.alter(client, {"user": "a"}, {"producer_byte_rate": 1.0}, [])
        with client_of(clusters.source) as client:
            acl_requests.create(client, [there])
        with monkeypatch.context() as patch:
            patch.setattr(quota_requests, "find", find)
            run(clusters, "create", "dr", "--topics", "orders", "--acls", "--quotas")
            eventually(lambda: acls(clusters.mirror) == [there], "the ACL is carried over")
        assert "The quotas of the source cannot be read: it is older than Kafka 2.6" in caplog.text
        assert quotas(clusters.mirror) == {"user a": {"producer_byte_rate": 1.0}}
