"""The configs of this node."""

from dataclasses import replace
from typing import Final

from kpybroker.console.asking import refuse
from kpybroker.console.node_parts import NodeParts
from kpybroker.console.pace import paced
from kpybroker.console.query import Query
from kpybroker.console.viewer import Viewer
from kpybroker.console.views.configs import ConfigsPage
from kpybroker.console.views.topics import DEFAULT_SOURCE, TYPES, ConfigRow, config_row
from kpybroker.http.request import Refused
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

BROKER_RESOURCE: Final = 4


async def configs(node: NodeParts, viewer: Viewer, query: Query) -> ConfigsPage:
    """The configs that are set, or all, as DescribeConfigs shows them to the viewer."""
    viewer.must_see_node()
    search, is_full = query.text("q")[:200].strip(), query.flag("all")
    name = str(node.role.node_id)
    wanted = DescribeConfigsResource(resource_type=BROKER_RESOURCE, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=True)
    (answer,) = (await node.ask(viewer, request)).results
    try:
        refuse(answer.error_code, "configs", answer.error_message)
    except Refused as refused:
        return ConfigsPage(node.role.node_id, search, is_full, 0, (), str(refused))
    found = [each for each in sorted(answer.configs, key=lambda each: each.name) if search.lower() in each.name.lower()]
    rows: list[ConfigRow] = []
    async for each in paced(found):
        is_set = each.config_source != DEFAULT_SOURCE
        if is_set or is_full:
            defaults = [known.value for known in each.synonyms if known.source == DEFAULT_SOURCE]
            values = {"value": each.value, "default": defaults[0] if defaults else None}
            row = config_row(each.name, values, each.config_source, TYPES[each.config_type], each.documentation or "")
            rows.append(replace(row, is_set=is_set))
    return ConfigsPage(node.role.node_id, search, is_full, len(found), tuple(rows), None)
