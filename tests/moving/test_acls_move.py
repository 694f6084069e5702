"""ACLs live in the metadata log: both programs read and change what the other has written, snapshots included."""

from pathlib import Path
from typing import Any

import pytest
from tenant import Tenant

from kpybroker.cli.options import connected
from kpybroker.client import acl_requests
from kpybroker.client.acl_requests import AclBinding, AclBindingFilter
from oracle import ApacheKafka
from support.waiting import becomes

pytestmark = [pytest.mark.java, pytest.mark.slow]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
WITHOUT = ("transaction.version",)


def entry(name: str, operation: int = 3, **fields: Any) -> AclBinding:
    whole = {"resource_type": 2, "pattern_type": 3, "principal": "User:CN=a,O=b", "host": "*", "permission_type": 3}
    return AclBinding(**{**whole, "resource_name": name, "operation": operation, **fields})


def test_acls_stay_what_they_are_in_both_directions(tmp_path: Path) -> None:
    options = [part for name in WITHOUT for part in ("--feature", f"{name}=0")]
    kafka = ApacheKafka(AUTHORIZER, directory=tmp_path, formatting=("--standalone", *options))
    ours = Tenant(kafka)
    expected: set[AclBinding] = set()

    def change(program: Any, created: list[AclBinding], deleted: list[AclBindingFilter], gone: set[AclBinding]) -> None:
        with connected(program.bootstrap_servers) as client:
            becomes(lambda: set(acl_requests.describe(client)), expected)
            acl_requests.create(client, created)
            assert set(acl_requests.delete(client, deleted)) == gone
            expected.difference_update(gone)
            expected.update(created)
            becomes(lambda: set(acl_requests.describe(client)), expected)

    of_t = [entry("t"), entry("t", 4), entry("t", 8, permission_type=2, host="10.0.0.0/8")]
    with kafka:
        change(kafka, [*of_t, entry("p", pattern_type=4), entry("kafka-cluster", 12, resource_type=4)], [], set())
        kafka.stop()
        with ours:
            one_of_t = AclBindingFilter(resource_name="t", operation=4)
            change(ours, [entry("*", 2, resource_type=3), *of_t[:1]], [one_of_t], {of_t[1]})
        ours.start()  # from the snapshot that a clean stop leaves
        change(ours, [], [AclBindingFilter(pattern_type=4)], {entry("p", pattern_type=4)})
        ours.stop()
        kafka.start()
        gone = {of_t[0], of_t[2]}
        change(kafka, [entry("q", resource_type=5, operation=15)], [AclBindingFilter(resource_name="t")], gone)
    with ours:
        change(ours, [], [], set())
