"""Quotas, users, ACLs and delegation tokens of a broker in ZooKeeper mode: followed, and written for clients."""

from collections.abc import Callable
from typing import Any, Final

from kpybroker.hosts.zookeeper.broker.client_writes import ClientWrites
from kpybroker.hosts.zookeeper.broker.followed_acls import AclSession
from kpybroker.hosts.zookeeper.broker.followed_clients import FollowedClients
from kpybroker.hosts.zookeeper.broker.followed_tokens import FollowedTokens
from kpybroker.hosts.zookeeper.broker.writers import Way
from kpybroker.hosts.zookeeper.client.client import NoAnswer
from kpybroker.machines.zookeeper.broker import token_requests
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.runtime.calls.call import Call
from kpywire import api

_TOKEN_APIS: Final = (api.CREATE_DELEGATION_TOKEN, api.RENEW_DELEGATION_TOKEN, api.EXPIRE_DELEGATION_TOKEN)


class ZooKeeperProtection:
    """The parts that follow quotas, users, ACLs and tokens. As a `Writer` it has the ways of requests that change
    them."""

    def __init__(
        self,
        clients: FollowedClients,
        writes: ClientWrites,
        tokens: FollowedTokens | None,
        acls: AclSession | None,
        is_controller: Callable[[], bool],
    ) -> None:
        """Without ``tokens`` there is no secret of tokens; without ``acls`` there is no authorizer."""
        self._clients = clients
        self._tokens = tokens
        self._acls = acls
        self._is_controller = is_controller
        self._ways: dict[int, Way] = {api.ALTER_CLIENT_QUOTAS: writes.alter_quotas}
        self._controllers_ways: dict[int, Way] = {api.ALTER_USER_SCRAM_CREDENTIALS: writes.alter_credentials}
        if acls is not None:
            self._ways |= {api.CREATE_ACLS: acls.acls.create, api.DELETE_ACLS: acls.acls.delete}
        if tokens is None:
            self._ways |= dict.fromkeys(_TOKEN_APIS, _without_tokens)
        else:
            self._ways |= dict(zip(_TOKEN_APIS, (tokens.create, tokens.renew, tokens.expire), strict=True))

    async def open(self) -> None:
        """Read everything at the start. Raises StartRefused, InvalidZnode, ZooKeeperError and NoAnswer."""
        await self.begin()
        if self._acls is not None:
            await self._acls.open()

    async def begin(self) -> None:
        """Read everything in a new session."""
        await self._clients.read_all()
        if self._tokens is not None:
            await self._tokens.begin()

    async def close(self, *, leave: bool) -> None:
        """Follow nothing more."""
        if self._acls is not None:
            await self._acls.close(leave=leave)

    def follows(self, path: str) -> bool:
        """Whether an event at this path says that something has changed here."""
        return path == paths.TOKEN_CHANGES and self._tokens is not None

    async def look(self) -> None:
        """Handle what has changed."""
        if self._tokens is not None:
            await self._tokens.look()

    async def sweep(self) -> None:
        """Delete the tokens that have expired, if this broker is the controller."""
        if self._tokens is not None and self._is_controller():
            try:
                await self._tokens.delete_expired()
            except NoAnswer:
                return  # the next controller deletes them

    def way(self, api_key: int) -> Way | None:
        """The way of a client's request; None if it is not for this broker."""
        found = self._ways.get(api_key)
        if found is None and self._is_controller():
            found = self._controllers_ways.get(api_key)
        return found


async def _without_tokens(request: Any, call: Call) -> Any:
    return token_requests.disabled(request, call.principal, call.api_version)
