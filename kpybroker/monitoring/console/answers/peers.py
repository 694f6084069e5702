"""The other nodes of the cluster, asked with the viewer's login: the addresses of their consoles, their log
directories, and the sizes of logs that move."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.config.describe import DEFAULT_CONFIG
from kpybroker.config.own_configs import CONSOLE_URL
from kpybroker.machines.console.cluster import CORDONED, FAILED, UNKNOWN, WORKING, DiskView
from kpybroker.machines.console.nodes import ConsoleLink, is_loopback, link_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire import error_codes
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult

PATIENCE_S: Final = 1.0
"""The time that a node has for its answer: a page does not wait longer for one that hangs."""
MOST_ASKED: Final = 30
"""The most nodes that are asked for one page."""

Spot = tuple[str, int]


class NodeAnswer(NamedTuple):
    """The answers of another node."""

    console: ConsoleLink
    disks: tuple[DiskView, ...]
    sizes: Mapping[tuple[int, str, int], int]


async def ask_peers(node: NodeParts, viewer: Viewer, spots: Sequence[Spot]) -> dict[int, NodeAnswer]:
    """The answers of all other nodes that are there. ``spots``: the partitions whose sizes are asked for."""
    image, here = node.role.image, node.role.node_id
    brokers = {each.id for each in image.brokers.values() if not each.fenced}
    controllers = image.controllers.keys() - image.brokers.keys()
    others = sorted((brokers | controllers) - {here})[:MOST_ASKED]
    found = await asyncio.gather(*(_ask(node, viewer, each, spots, is_broker=each in brokers) for each in others))
    return dict(zip(others, found, strict=True))


async def consoles_of(node: NodeParts, viewer: Viewer, others: Collection[int]) -> dict[int, str]:
    """The addresses of the consoles of these nodes, of those that have one for the viewer's browser."""
    asked = sorted(others)[:MOST_ASKED]
    found = await asyncio.gather(*(_ask(node, viewer, each, (), is_broker=False) for each in asked))
    return {other: each.console.url for other, each in zip(asked, found, strict=True) if each.console.url}


async def _ask(node: NodeParts, viewer: Viewer, other: int, spots: Sequence[Spot], *, is_broker: bool) -> NodeAnswer:
    wanted = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(other), configuration_keys=[CONSOLE_URL]
    )
    requests: list[Any] = [DescribeConfigsRequest(resources=[wanted])]
    if is_broker:
        requests.append(DescribeLogDirsRequest(topics=_topics(spots)))
    try:
        async with asyncio.timeout(PATIENCE_S):
            configs, *directories = await node.elsewhere.ask_each(viewer, other, requests)
    except (KafkaError, TimeoutError) as error:
        line = "it does not answer" if isinstance(error, TimeoutError) else error.message or str(error)
        return NodeAnswer(ConsoleLink(None, f"unknown: {line}"), _unknown(other, line) if is_broker else (), {})
    if not configs.results:
        return NodeAnswer(ConsoleLink(None, "unknown: it does not say"), _unknown(other, "it does not say"), {})
    link = _link(node, viewer, other, configs.results[0])
    if not directories:
        return NodeAnswer(link, (), {})
    (answer,) = directories
    if answer.error_code:
        return NodeAnswer(link, _unknown(other, error_codes.name(answer.error_code)), {})
    return NodeAnswer(link, tuple(_disk(other, each) for each in answer.results), sizes_in(other, answer.results))


async def sizes_here(node: NodeParts, viewer: Viewer, spots: Sequence[Spot]) -> Mapping[tuple[int, str, int], int]:
    """The sizes of these logs on this node; none if the viewer may not see them."""
    if not spots or node.role.is_controller_role:
        return {}
    try:
        answer = await node.ask(viewer, DescribeLogDirsRequest(topics=_topics(spots)))
    except HttpRefused:
        return {}
    return sizes_in(node.role.node_id, answer.results)


def _topics(spots: Iterable[Spot]) -> list[DescribableLogDirTopic]:
    topics: dict[str, DescribableLogDirTopic] = {}
    for topic, index in spots:
        topics.setdefault(topic, DescribableLogDirTopic(topic=topic, partitions=[])).partitions.append(index)
    return list(topics.values())


def sizes_in(node_id: int, results: Iterable[DescribeLogDirsResult]) -> dict[tuple[int, str, int], int]:
    """The sizes of the logs of a node by its answer, without copies that move between its directories."""
    return {
        (node_id, topic.name, part.partition_index): part.partition_size
        for each in results
        for topic in each.topics
        for part in topic.partitions
        if not part.is_future_key
    }


def _disk(node_id: int, found: DescribeLogDirsResult) -> DiskView:
    if found.error_code:
        return DiskView(node_id, found.log_dir, None, None, None, None, FAILED)
    total, usable = (size if size >= 0 else None for size in (found.total_bytes, found.usable_bytes))
    return DiskView(node_id, found.log_dir, total, usable, None, None, CORDONED if found.is_cordoned else WORKING)


def _unknown(node_id: int, line: str) -> tuple[DiskView, ...]:
    return (DiskView(node_id, line, None, None, None, None, UNKNOWN),)


def _link(node: NodeParts, viewer: Viewer, other: int, answer: Any) -> ConsoleLink:
    if answer.error_code:
        return ConsoleLink(None, f"unknown: {error_codes.name(answer.error_code)}")
    url, source = next(((each.value or "", each.config_source) for each in answer.configs), ("", DEFAULT_CONFIG))
    image, here = node.role.image, node.role.node_id
    hosts = [
        {each.host for each in (image.brokers.get(number) or image.controllers[number]).listeners.values()}
        for number in (here, other)
        if number in image.brokers or number in image.controllers
    ]
    is_same_machine = len(hosts) == 2 and not hosts[0].isdisjoint(hosts[1])
    return link_of(
        url,
        is_configured=source != DEFAULT_CONFIG,
        is_viewer_local=is_loopback(viewer.host),
        is_same_machine=is_same_machine,
    )
