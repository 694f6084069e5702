"""The configs of this node, how configs of any resource are asked for, and changes of those of nodes."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from kpybroker.config.broker_configs import BROKER_CONFIGS
from kpybroker.config.refusals import shown_name
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.config_def import PASSWORD
from kpybroker.machines.console.config_words import value_of
from kpybroker.machines.console.configs import CONFIG_KEYS, DEFAULT_SOURCE, TYPES, ConfigRow, ConfigsPage, config_row
from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.monitoring.console.asking import refuse, until_known
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

log = logging.getLogger("kpybroker.console")

ALL_BROKERS: Final = ""
"""The name of the resource whose configs are the defaults of all brokers."""
SET, DELETE = 0, 1


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
            usual = next((known for known in each.synonyms if known.source == DEFAULT_SOURCE), None)
            values = {"value": each.value}
            if usual is not None:
                values |= {"default": usual.value, "default_name": usual.name}
            kind, text = TYPES[each.config_type], each.documentation or ""
            row = config_row(each.name, values, each.config_source, kind, text, is_dynamic=not each.read_only)
            rows.append(replace(row, is_set=is_set))
    rows.sort(key=lambda row: not row.is_set)
    shown = sorted_rows(rows, CONFIG_KEYS, query.text("sort"))
    dynamic = sorted([each.name for each in described if not each.read_only and TYPES[each.config_type] != PASSWORD])
    may_configure = (
        node.is_writable
        and not node.role.is_controller_role
        and viewer.may(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    )
    return ConfigsPage(
        node.role.node_id, search, is_full, len(found), tuple(shown), tuple(dynamic), hidden, may_configure
    )


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


async def alter(
    node: NodeParts, viewer: Viewer, kind: int, resource: str, name: str, value: str | None, what: str
) -> None:
    """Set a config of a resource, or remove it if ``value`` is None. Raises Refused, which begins with ``what``."""
    change = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
    wanted = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[change])
    response = await node.ask(viewer, IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False))
    (answer,) = response.responses
    refuse(answer.error_code, what, answer.error_message)


async def configure(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Set a config of this node or of all brokers while they run, or remove it where no value is given. Returns the
    page of the configs. Raises Refused."""
    name = query.needed("name")
    resource_name = ALL_BROKERS if query.flag("everywhere") else str(node.broker.node_id)
    is_removed = query.flag("remove") or "value" not in query.values
    key = BROKER_CONFIGS.get(name)
    text = query.text("value")
    value = None if is_removed else text if key is None else value_of(name, key.type, text)
    where = f"node {resource_name}" if resource_name else "all brokers"
    await alter(node, viewer, BROKER_RESOURCE, resource_name, name, value, f"{name[:100]} of {where}")
    is_secret = key is None or key.sensitive
    what = "removed" if is_removed else "set" if is_secret else f"set to {value!a}"
    log.info("%s: config %s of %s is %s", viewer.identity, shown_name(name), where, what)
    if not is_secret:
        await until_known(lambda: node.broker.image.configs_of(BROKER_RESOURCE, resource_name).get(name) == value)
    return "/configs"
