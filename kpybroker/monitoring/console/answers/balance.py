"""The page of the balancer, and the changes of its mode."""

import logging
from typing import Final

from kpybroker.config.own_configs import BALANCER_MODE
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.balance.standing import ADVISE, BalancerStanding
from kpybroker.machines.console.balance import BalancePage, visible_to
from kpybroker.machines.metadata.image import BROKER_RESOURCE
from kpybroker.monitoring.console.answers.configs import ALL_BROKERS, alter
from kpybroker.monitoring.console.answers.peers import consoles_of
from kpybroker.monitoring.console.asking import until_known
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer

log = logging.getLogger("kpybroker.console")

PAGE: Final = "/balance"


async def balance(node: NodeParts, viewer: Viewer, _query: Query) -> BalancePage:
    """The page. The node of the active controller has the plan; the others name that node."""
    viewer.must_see_node()
    role, follower = node.role, node.sources.balancer
    mode = "off" if role.config.is_in_zookeeper_mode else role.config[BALANCER_MODE]
    leader = role.controller.controller_id
    is_here = leader == role.node_id
    standing = follower.standing if follower is not None and is_here else None
    elsewhere = None
    if leader >= 0 and not is_here:
        elsewhere = (await consoles_of(node, viewer, (leader,))).get(leader)
    may_change = (
        node.is_writable
        and not role.is_controller_role
        and not role.config.is_in_zookeeper_mode
        and viewer.may(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
    )
    shown = visible_to(standing or BalancerStanding(mode), viewer.may_see_topic)
    return BalancePage(mode, leader if leader >= 0 else None, is_here, elsewhere, shown, may_change)


async def set_mode(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Set the mode of the balancer. Returns its page. Raises Refused."""
    return await _set(node, viewer, query.needed("mode"))


async def stop(node: NodeParts, viewer: Viewer, _query: Query) -> str:
    """Stop the balancer: it cancels the moves that it has begun, removes their throttles, and goes on to advise.
    Returns its page. Raises Refused."""
    return await _set(node, viewer, ADVISE)


async def _set(node: NodeParts, viewer: Viewer, mode: str) -> str:
    await alter(node, viewer, BROKER_RESOURCE, ALL_BROKERS, BALANCER_MODE, mode, BALANCER_MODE)
    log.info("%s: the mode of the balancer is %a", viewer.identity, mode)
    await until_known(lambda: node.role.config[BALANCER_MODE] == mode)
    return PAGE
