"""The configs of this node, and how configs of any resource are asked for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kpybroker.machines.console.configs import CONFIG_KEYS, ConfigsPage
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.topics import DEFAULT_SOURCE, TYPES, ConfigRow, config_row
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER_RESOURCE: Final = 4


async def configs(node: NodeParts, viewer: Viewer, query: Query) -> ConfigsPage:
    """The configs that are set, or all, as DescribeConfigs shows them to the viewer."""
    viewer.must_see_node()
    search, is_full = query.text("q")[:200].strip(), query.flag("all")
    described, hidden = await describe(node, viewer, BROKER_RESOURCE, str(node.role.node_id))
    found = [each for each in sorted(described, key=lambda each: each.name) if search.lower() in each.name.lower()]
    rows: list[ConfigRow] = []
    async for each in paced(found):
        is_set = each.config_source != DEFAULT_SOURCE
        if is_set or is_full:
            defaults = [known.value for known in each.synonyms if known.source == DEFAULT_SOURCE]
            values = {"value": each.value, "default": defaults[0] if defaults else None}
            row = config_row(each.name, values, each.config_source, TYPES[each.config_type], each.documentation or "")
            rows.append(replace(row, is_set=is_set))
    shown = tuple(sorted_rows(rows, CONFIG_KEYS, query.text("sort")))
    return ConfigsPage(node.role.node_id, search, is_full, len(found), shown, hidden)


async def describe(node: NodeParts, viewer: Viewer, kind: int, name: str) -> tuple[Sequence[Any], str | None]:
    """The configs of a resource with their documentation, and the reason if they are hidden from the viewer."""
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=True)
    (answer,) = (await node.ask(viewer, request)).results
    try:
        refuse(answer.error_code, "configs", answer.error_message)
    except HttpRefused as refused:
        return (), str(refused)
    return answer.configs, None
