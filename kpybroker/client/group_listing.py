"""The request of ``kpybroker groups list``: the groups of all brokers."""

from functools import partial

from kpybroker.client.client import Client, raise_for
from kpywire.messages.list_groups import ListedGroup, ListGroupsRequest

CONSUMER = "consumer"
CLASSIC = "classic"


def list_groups(client: Client) -> list[ListedGroup]:
    """All groups of all brokers, by name. Raises KafkaError."""
    groups: dict[str, ListedGroup] = {}
    for node in client.nodes():
        answer = client.retrying(partial(_list, client, node.node_id))
        groups |= {group.group_id: group for group in answer}
    return [groups[name] for name in sorted(groups)]


def _list(client: Client, node_id: int) -> list[ListedGroup]:
    answer = client.call_node(node_id, ListGroupsRequest())
    raise_for(answer.error_code, "groups")
    groups: list[ListedGroup] = answer.groups
    return groups
