"""The audit log of decisions, in the words of Kafka's ``kafka.authorizer.logger``: INFO what was denied, DEBUG what was
allowed."""

import logging
from typing import Final

from kpybroker.machines.authorization.authorizer import MatchingRule
from kpybroker.machines.authorization.resources import AclOperation, PatternType, ResourceType
from kpybroker.runtime.calls.principal import Principal
from kpywire import api

log = logging.getLogger("kpybroker.authorizer")

MOST_LINES: Final = 100
"""The decisions on one request that are logged. One more line says that there are others."""
LONGEST_NAME: Final = 512
"""The characters of a name that are logged. No topic has a longer one."""
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
"""Names come from clients: none may end a line of the log."""


def is_logged(rule: MatchingRule) -> bool:
    """Whether the log shows such a decision."""
    return log.isEnabledFor(logging.DEBUG if rule.allows else logging.INFO)


def note(
    rule: MatchingRule,
    principal: Principal,
    host: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    api_key: int,
) -> None:
    """Log a decision (``StandardAuthorizerData.buildAuditMessage``; ``AclAuthorizer.logAuditMessage`` for a rule
    without a name)."""
    verdict = "Allowed" if rule.allows else "Denied"
    what = f"operation = {operation.name}" if rule.name else f"Operation = {operation.pascal_name}"
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}..."
    line = (
        f"Principal = {principal} is {verdict} {what} from host = {host} on resource = "
        f"{kind.pascal_name}:{PatternType.LITERAL.name}:{name} for request = {api.API_KEYS[api_key].name} "
        f"with resourceRefCount = 1{f' based on rule {rule}' if rule.name else ''}"
    )
    log.log(logging.DEBUG if rule.allows else logging.INFO, "%s", line.translate(_CONTROL))


def note_more(principal: Principal, host: str, api_key: int) -> None:
    """Log that further decisions on a request are not logged."""
    name = api.API_KEYS[api_key].name
    line = f"Further decisions for request = {name} of Principal = {principal} from host = {host} are not logged"
    log.info("%s", line.translate(_CONTROL))
