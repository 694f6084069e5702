"""Requests about delegation tokens: whether the sender may ask, and which tokens it may see
(``KafkaApis.allowTokenRequests``, ``DelegationTokenManager``)."""

from typing import Final

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.permissions import may
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord

NO_TIMESTAMP: Final = -1


def may_ask(call: Call) -> bool:
    """Whether the sender has proved its identity, and not by a token: a token must not bring forth others."""
    return call.principal != ANONYMOUS and not call.principal.token_authenticated


def may_see(broker: Context, call: Call, token: DelegationTokenRecord) -> bool:
    """Whether the sender has to do with a token, or may describe it or the tokens of its owner."""
    if str(call.principal) in (token.owner, token.requester, *token.renewers):
        return True
    return may(broker, call, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id) or may(
        broker, call, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )
