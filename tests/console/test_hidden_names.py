"""No page or answer of the console contains a name that its viewer may not describe, of whatever kind it is."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from console_node import ConsoleNode, console_node
from degraded import THROTTLED, throttle
from test_access import AUTHORIZER
from test_group_progress import first
from test_transactions_page import open_transaction

from kpybroker.monitoring.console.pages import PAGES
from kpybroker.runtime.http import gate
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.record import Record
from support.waiting import eventually

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
LITERAL, READ, DESCRIBE, DESCRIBE_CONFIGS, ALLOW = 3, 3, 8, 10, 3
HIDDEN = ("hidden-topic", "hidden-group", "hidden-transaction", "hidden-client", "hidden-user", "hidden-resource")
GRANTS = {
    "describer": ((TOPIC, "open", DESCRIBE), (GROUP, "of-open", DESCRIBE)),
    "reader": ((TOPIC, "open", READ), (GROUP, "of-open", READ)),
    "watcher": ((TOPIC, "open", READ), (CLUSTER, "kafka-cluster", DESCRIBE)),
    "configurer": ((CLUSTER, "kafka-cluster", DESCRIBE), (TOPIC, "*", DESCRIBE_CONFIGS)),
}
SEEN = {
    "nobody": set(),
    "describer": set(),
    "reader": set(),
    # Kafka shows groups, ACLs and users to those with DESCRIBE on the cluster; the node shows them its connections
    "watcher": {"hidden-group", "hidden-client", "hidden-user", "hidden-resource"},
    "configurer": {"hidden-group", "hidden-client", "hidden-user", "hidden-resource"},
    "root": set(HIDDEN),
}
"""The hidden names that each user may know after all."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleNode]:
    users = tmp_path_factory.mktemp("users") / "users"
    write_users(users)
    settings = {
        "authorizer_class_name": AUTHORIZER,
        "super_users": "User:root;User:ANONYMOUS",
        "kpybroker_http_users": str(users),
        "kpybroker_console_write_enable": "true",
    }
    with pytest.MonkeyPatch.context() as patched, console_node(None, **settings) as made:
        patched.setattr(gate, "FAILURE_DELAY_S", 0.0)
        for topic in ("open", "hidden-topic"):
            made.create(topic)
            made.produce(topic, [Record(timestamp=int(time() * 1000), value=b"v")])
        made.commit("of-open", "open", 0)
        made.commit("of-open", "hidden-topic", 0)
        made.commit("hidden-group", "open", 0)
        set_names(made)
        throttle(made, TOPIC, "hidden-topic", THROTTLED, "*")
        producer = open_transaction(made, "hidden-transaction", "open")
        producer.produce("hidden-topic", b"v")
        producer.flush(30)
        reader = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{made.node.ports['PLAINTEXT']}",
                "group.id": "unused",
                "client.id": "hidden-client",
                "log_level": 0,
            }
        )
        reader.assign([TopicPartition("open", 0, 0)])
        first(reader)
        eventually(lambda: ask(made, "reader", "/api/topics").count("open"), "the ACLs count")
        yield made
        reader.close()


def write_users(path: Path) -> None:
    path.write_text("".join(f"{user}=p\n" for user in SEEN))
    path.chmod(0o600)


def set_names(node: ConsoleNode) -> None:
    """ACLs, and a quota of a user."""
    wanted = [(user, *grant) for user, grants in GRANTS.items() for grant in grants]
    wanted.append(("hidden-user", TOPIC, "hidden-resource", READ))
    acls = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=LITERAL,
            principal=f"User:{user}",
            host="*",
            operation=operation,
            permission_type=ALLOW,
        )
        for user, kind, name, operation in wanted
    ]
    entity = [AlterClientQuotasRequestEntityData(entity_type="user", entity_name="hidden-user")]
    ops = [OpData(key="producer_byte_rate", value=1e9, remove=False)]
    entry = AlterClientQuotasRequestEntryData(entity=entity, ops=ops)
    with node.client as client:
        client.call(CreateAclsRequest(creations=acls), 3)
        client.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 0)


def ask(node: ConsoleNode, user: str, path: str) -> str:
    login = {"Authorization": "Basic " + b64encode(f"{user}:p".encode()).decode()}
    return node.request("GET", path, login).text


def paths() -> Iterator[str]:
    """The addresses of all pages and answers, about what is open and about what the whole node has."""
    values = {"topic": "open", "partition": "0", "segment": "0", "search": "none", "connection": "none"}
    queries = {"/records": ("", "topic=open"), "/records/raw": ("topic=open&partition=0&offset=0",)}
    queries |= {"/find": ("q=hidden",), "/group": ("id=of-open",), "/topics": ("internal=1",), "/configs": ("all=1",)}
    for page in PAGES:
        for path in {page.path, page.api_path} if page.template else {page.path}:
            for query in queries.get(page.path, ("",)):
                yield path.format(**values) + (f"?{query}" if query else "")


@pytest.mark.parametrize("user", SEEN)
def test_no_page_names_what_its_viewer_may_not_describe(node: ConsoleNode, user: str) -> None:
    shown = {path: ask(node, user, path) for path in paths()}
    found = {name: sorted(path for path, text in shown.items() if name in text) for name in HIDDEN}
    named = {name for name, where in found.items() if where}
    assert named <= SEEN[user], {name: where for name, where in found.items() if name not in SEEN[user]}
    if user == "root":
        assert named == set(HIDDEN), "each of the names is on some page"


def test_an_unknown_name_is_refused_like_a_hidden_one(node: ConsoleNode) -> None:
    for path in ("/api/topics/{}", "/api/topics/{}/0", "/api/records?topic={}", "/api/group?id={}"):
        hidden, unknown = ("hidden-group", "other-group") if "group" in path else ("hidden-topic", "other-topic")
        answers = [ask(node, "reader", path.format(name)).replace(name, "…") for name in (hidden, unknown)]
        assert answers[0] == answers[1], path
