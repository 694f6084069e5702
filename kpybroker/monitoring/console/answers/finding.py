"""The search of everything: topics, groups, clients, transactional ids and configs that the viewer may see."""

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import quote, urlencode

from kpybroker.config.describe import names_shown
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.finding import Closest, FindPage, Hit, Hits, find_page, is_hit
from kpybroker.machines.console.wording import counted
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.list_transactions import ListTransactionsRequest


async def find(node: NodeParts, viewer: Viewer, query: Query) -> FindPage:
    """The page; nothing is searched without a text."""
    search = query.text("q")[:249].strip()
    missing: list[str] = []
    if not search:
        return find_page(search, (), missing)
    kinds: list[Hits] = []
    if not node.role.is_controller_role:
        kinds.append(await _topics(node, viewer, search))
        kinds.append(await _groups(node, viewer, search, missing))
        kinds.append(await _transactional_ids(node, viewer, search, missing))
    if viewer.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        kinds.append(await _clients(node, search))
    else:
        missing.append("Clients are hidden from you: that takes DESCRIBE on the cluster.")
    if viewer.may(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        kinds.append(await _configs(node, search))
    else:
        missing.append("Configs are hidden from you: that takes DESCRIBE_CONFIGS on the cluster.")
    return find_page(search, kinds, missing)


async def _topics(node: NodeParts, viewer: Viewer, search: str) -> Hits:
    found = Closest("Topics", "/topics?" + urlencode({"q": search, "internal": 1}), search)
    async for topic in paced(list(node.broker.image.topics.values())):
        if is_hit(topic.name, search) and viewer.may_see_topic(topic.name):
            address = f"/topics/{quote(topic.name, safe='')}"
            found.add(Hit(topic.name, address, counted(len(topic.partitions), "partition")))
    return found.hits()


async def _groups(node: NodeParts, viewer: Viewer, search: str, missing: list[str]) -> Hits:
    """The groups of all brokers. The page of a group is at its coordinator; the list leads to those of others."""
    here = node.broker.node_id
    request = ListGroupsRequest(states_filter=[], types_filter=[])

    async def listed(at: int) -> Any:
        try:
            answer = await node.ask_at(viewer, at, request)
            refuse(answer.error_code, "groups")
            return at, answer.groups
        except (HttpRefused, KafkaError) as error:
            reason = error.message if isinstance(error, KafkaError) else None
            missing.append(f"The groups of node {at} were not searched: {reason or error}.")
            return at, ()

    found = Closest("Groups", "/groups?" + urlencode({"q": search}), search)
    for at, groups in await asyncio.gather(*(listed(each) for each in sorted({here, *node.broker.alive_brokers}))):
        async for each in paced(groups):
            if is_hit(each.group_id, search):
                address = ("/group?" if at == here else "/groups?") + urlencode(
                    {"id" if at == here else "q": each.group_id}
                )
                found.add(Hit(each.group_id, address, f"{each.group_type}, {each.group_state}"))
    return found.hits()


async def _transactional_ids(node: NodeParts, viewer: Viewer, search: str, missing: list[str]) -> Hits:
    found = Closest("Transactional ids", "/transactions?" + urlencode({"q": search}), search)
    try:
        answer = await node.ask(viewer, ListTransactionsRequest(state_filters=[], producer_id_filters=[]))
        refuse(answer.error_code, "transactions")
    except HttpRefused as refused:
        missing.append(f"Transactional ids were not searched: {refused}.")
    else:
        async for each in paced(answer.transaction_states):
            if is_hit(each.transactional_id, search):
                address = "/transactions?" + urlencode({"q": each.transactional_id})
                found.add(Hit(each.transactional_id, address, each.transaction_state))
    return found.hits()


async def _clients(node: NodeParts, search: str) -> Hits:
    """The client ids of open connections."""
    connections: Counter[str] = Counter()
    async for each in paced(list(node.sources.server.connections)):
        connections.update({known.call.client_id or "" for known in each.client.calls.values()})
    found = Closest("Clients", "/connections?" + urlencode({"q": search}), search)
    async for name, count in paced(connections.items()):
        if name and is_hit(name, search):
            found.add(Hit(name, "/connections?" + urlencode({"q": name}), counted(count, "connection")))
    return found.hits()


async def _configs(node: NodeParts, search: str) -> Hits:
    """The configs of this node, by their names alone."""
    found = Closest("Configs", "/configs?" + urlencode({"q": search, "all": 1}), search)
    async for name in paced(names_shown(node.role.config)):
        if is_hit(name, search):
            found.add(Hit(name, "/configs?" + urlencode({"q": name, "all": 1}), ""))
    return found.hits()
