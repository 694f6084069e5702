"""A node with an authorizer: it knows the ACLs when it serves clients, follows them, and counts what it decides."""

from scraped_node import scraped_node

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.runtime.calls.principal import Principal
from kpywire.messages.create_acls import CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from support.admin_requests import acl, acl_filter
from support.raw_client import RawClient
from support.waiting import becomes

ALICE = Principal("User", "alice")
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_a_node_follows_its_acls_and_counts_its_decisions() -> None:
    settings = {"authorizer_class_name": STANDARD, "super_users": "User:ANONYMOUS"}
    with scraped_node(**settings) as node, RawClient(node.port) as client:
        broker = node.node.broker
        assert broker is not None
        authorizer = broker.authorizer
        assert authorizer is not None
        assert not authorizer.awaits_acls

        def may_read() -> bool:
            return bool(
                node.call(lambda: authorizer.allows(ALICE, "10.0.0.7", AclOperation.READ, ResourceType.TOPIC, "t"))
            )

        assert not may_read()
        client.call(CreateAclsRequest(creations=[acl("t", principal="User:alice"), acl("u")]), 3)
        becomes(may_read, expected=True)
        scrape = node.scrape()
        assert scrape.value("kpybroker_acls") == scrape.value("kafka_server_plugins_acls_total_count") == 2
        counts = scrape.labelled("kpybroker_authorizations_total", "result")
        assert counts["allowed"] >= 1
        assert counts["denied"] >= 1
        client.call(DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter(resource_name_filter="t"))]), 3)
        becomes(may_read, expected=False)
        assert node.scrape().value("kpybroker_acls") == 1


def test_a_node_without_an_authorizer_shows_nothing_of_it() -> None:
    with scraped_node() as node:
        assert "kpybroker_acls" not in node.scrape().samples
