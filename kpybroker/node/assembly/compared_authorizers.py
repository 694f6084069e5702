"""Warns a broker whose controllers have an authorizer and which has none itself, or the reverse.

Configs say nothing of other nodes, so the active controller is asked about ACLs: without an authorizer it answers
SECURITY_DISABLED. It is asked again whenever another one is active.
"""

import logging
from typing import Any, Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peers import Peers
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.node.assembly.platform import Platform
from kpywire import error_codes
from kpywire.messages.describe_acls import DescribeAclsRequest

log = logging.getLogger("kpybroker.authorizer")

NONE_OF_CONTROLLER: Final = (
    "The controller of node %d has no authorizer (authorizer.class.name), and this broker has one: requests that are "
    "sent to that controller, and what it gets from brokers without an authorizer, are not authorized"
)
NONE_HERE: Final = (
    "The controller of node %d has an authorizer, and this broker has none (authorizer.class.name): its clients may do "
    "everything that no controller decides, such as reading and writing all topics"
)
_WITH_AUTHORIZER: Final = (error_codes.NONE, error_codes.CLUSTER_AUTHORIZATION_FAILED)
_ANY, _CLUSTER, _LITERAL = 1, 4, 3


class ComparedAuthorizers:
    """The check of one broker."""

    def __init__(self, quorum: QuorumHost, peers: Peers, *, has_authorizer: bool) -> None:
        self._quorum = quorum
        self._peers = peers
        self._has_authorizer = has_authorizer
        self._asked = -1
        """The node whose controller was asked last."""

    def look(self) -> None:
        """Ask the active controller, unless it is this node's own or was asked."""
        leader, endpoint = self._quorum.controller_id, self._quorum.leader_endpoint
        if self._quorum.is_active or leader < 0 or endpoint is None or leader == self._asked:
            return
        self._asked = leader
        request = DescribeAclsRequest(
            resource_type_filter=_CLUSTER,
            resource_name_filter="kafka-cluster",
            pattern_type_filter=_LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )
        self._peers.ask_once(endpoint.host, endpoint.port, request, lambda answer: self._answered(leader, answer))

    def _answered(self, leader: int, answer: Any) -> None:
        code = getattr(answer, "error_code", None)  # none if there was no answer
        if self._has_authorizer and code == error_codes.SECURITY_DISABLED:
            log.warning(NONE_OF_CONTROLLER, leader)
        elif not self._has_authorizer and code in _WITH_AUTHORIZER:
            log.warning(NONE_HERE, leader)


def compare_authorizers(
    config: BrokerConfig, platform: Platform, quorum: QuorumHost, authorizer: Authorizer | None
) -> None:
    """Begin the check of a broker that has caught up with the metadata."""
    peers = platform.controller_peers(config, "authorizer", config.request_timeout_ms)
    platform.ends.callback(peers.close)
    compared = ComparedAuthorizers(quorum, peers, has_authorizer=authorizer is not None)
    quorum.when_leader_changes(compared.look)
    compared.look()
