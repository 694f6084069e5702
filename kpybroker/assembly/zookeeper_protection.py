"""Quotas, users, ACLs and delegation tokens of a broker in ZooKeeper mode: followed, and written for clients."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from kpybroker.assembly.platform import Platform
from kpybroker.assembly.quorum import token_settings
from kpybroker.assembly.security import Security
from kpybroker.assembly.zookeeper import Joined, client_of, connected, connection_timeout_ms, make_chroot
from kpybroker.calls.call import Call
from kpybroker.config.authorizer_configs import of_own_zookeeper
from kpybroker.config.broker import BrokerConfig
from kpybroker.controller.state import TokenSettings
from kpybroker.failed_response import failed_response
from kpybroker.network.peer import Connect
from kpybroker.zookeeper.broker import token_requests
from kpybroker.zookeeper.broker.client_writes import ClientWrites
from kpybroker.zookeeper.broker.followed_acls import FollowedAcls
from kpybroker.zookeeper.broker.followed_clients import FollowedClients
from kpybroker.zookeeper.broker.followed_tokens import FollowedTokens
from kpybroker.zookeeper.client.client import Client, NoAnswer, ZooKeeperError
from kpybroker.zookeeper.client.frames import WatchedEvent
from kpybroker.zookeeper.client.session import State
from kpybroker.zookeeper.controlling.office import Office
from kpybroker.zookeeper.tree import paths
from kpybroker.zookeeper.tree.contents import InvalidZnode
from kpywire import api, error_codes

log = logging.getLogger("kpybroker.zookeeper")

Begin = Callable[[Coroutine[Any, Any, None]], object]
Reply = Callable[[Any], object]
Way = Callable[[Any, Call], Awaitable[Any]]
"""Answers one request of a client."""
_TOKEN_APIS: Final = (api.CREATE_DELEGATION_TOKEN, api.RENEW_DELEGATION_TOKEN, api.EXPIRE_DELEGATION_TOKEN)


class AclSession:
    """The session of the authorizer with its ZooKeeper. As in Kafka it is one of its own."""

    def __init__(
        self,
        client: Client,
        acls: FollowedAcls,
        connect: Callable[[], Awaitable[None]],
        begin: Begin,
        failed: Callable[[str], None],
    ) -> None:
        """``connect`` begins the first session of the client."""
        self.acls = acls
        self._client = client
        self._connect = connect
        self._begin = begin
        self._failed = failed
        self._is_closed = False

    async def open(self) -> None:
        """Connect, and read all ACLs. Raises StartRefused, InvalidZnode, ZooKeeperError and NoAnswer."""
        await self._connect()
        self._client.on_event = self._happened
        self._client.on_state = self._state_changed
        await self.acls.begin()

    async def close(self, *, leave: bool) -> None:
        """End it. Without ``leave`` the connection is dropped as if the process had died."""
        self._is_closed = True
        if leave:
            await self._client.close()

    def _happened(self, event: WatchedEvent) -> None:
        if event.path in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES):
            self._begin(self._tried(self.acls.look))

    def _state_changed(self, state: State) -> None:
        if self._is_closed:
            return
        if state is State.EXPIRED:
            self._client.open()
            self._begin(self._tried(self.acls.begin))
        elif state is State.REFUSED:
            self._failed(f"ZooKeeper refuses the login of the authorizer: {self._client.why}")

    @staticmethod
    async def _tried(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NoAnswer:
            return  # the next session reads all of them
        except (ZooKeeperError, InvalidZnode) as error:
            log.error("Changes of ACLs cannot be followed: %s", error)


class ZooKeeperProtection:
    """The parts that follow quotas, users, ACLs and tokens, and the ways of requests that change them."""

    def __init__(
        self, joined: Joined, tokens: FollowedTokens | None, acls: AclSession | None, is_controller: Callable[[], bool]
    ) -> None:
        """Without ``tokens`` there is no secret of tokens; without ``acls`` there is no authorizer."""
        image, apply = joined.metadata.image, joined.metadata.apply
        self._clients = FollowedClients(joined.client, image, apply)
        self._tokens = tokens
        self._acls = acls
        self._is_controller = is_controller
        writes = ClientWrites(joined.client, joined.acls, self._clients.read)
        self._ways: dict[int, Way] = {api.ALTER_CLIENT_QUOTAS: writes.alter_quotas}
        self._controllers_ways: dict[int, Way] = {api.ALTER_USER_SCRAM_CREDENTIALS: writes.alter_credentials}
        if acls is not None:
            self._ways |= {api.CREATE_ACLS: acls.acls.create, api.DELETE_ACLS: acls.acls.delete}
        if tokens is None:
            self._ways |= dict.fromkeys(_TOKEN_APIS, _without_tokens)
        else:
            self._ways |= dict(zip(_TOKEN_APIS, (tokens.create, tokens.renew, tokens.expire), strict=True))
        joined.configs.others = self._clients.read

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
            await self._tokens.delete_expired()

    def way(self, api_key: int) -> Way | None:
        """The way of a client's request; None if it is not for this broker."""
        found = self._ways.get(api_key)
        if found is None and self._is_controller():
            found = self._controllers_ways.get(api_key)
        return found


def build_protection(
    config: BrokerConfig,
    platform: Platform,
    joined: Joined,
    security: Security,
    office: Office,
    begin: Begin,
    simulated: Connect | None,
) -> ZooKeeperProtection:
    """The protection of a broker. ``begin`` begins a task."""
    settings = token_settings(config)
    tokens = None if settings is None else _tokens(platform, joined, settings)
    acls = None if security.authorizer is None else _acls(config, platform, joined, begin, simulated)
    protection = ZooKeeperProtection(joined, tokens, acls, lambda: office.controller.is_active)
    if tokens is not None:
        _sweep(platform, protection, begin, config["delegation.token.expiry.check.interval.ms"])
    controller = joined.controller
    controller.write = _either(controller.write, partial(_take, protection, begin))
    controller.admit = security.forwarding(config, joined.metadata.image).admit
    return protection


def _either(
    first: Callable[[Any, Call, Reply], bool], second: Callable[[Any, Call, Reply], bool]
) -> Callable[[Any, Call, Reply], bool]:
    """Takes a request if one of both does."""
    return lambda request, call, reply: first(request, call, reply) or second(request, call, reply)


def _take(protection: ZooKeeperProtection, begin: Begin, request: Any, call: Call, reply: Reply) -> bool:
    way = protection.way(call.api_key)
    if way is None:
        return False
    begin(_answer(way, request, call, reply))
    return True


async def _answer(way: Way, request: Any, call: Call, reply: Reply) -> None:
    try:
        reply(await way(request, call))
    except NoAnswer as lost:
        code = error_codes.UNKNOWN_SERVER_ERROR  # as Kafka answers when its session expires meanwhile
        reply(failed_response(request, call.api_version, code, str(lost)))


async def _without_tokens(request: Any, call: Call) -> Any:
    return token_requests.disabled(request, call.principal, call.api_version)


def _tokens(platform: Platform, joined: Joined, settings: TokenSettings) -> FollowedTokens:
    metadata, scheduler = joined.metadata, platform.scheduler
    return FollowedTokens(
        joined.client, joined.acls, metadata.image, settings, scheduler.now_ms, platform.rng, metadata.apply
    )


def _acls(
    config: BrokerConfig, platform: Platform, joined: Joined, begin: Begin, simulated: Connect | None
) -> AclSession:
    own = _connection_of(of_own_zookeeper(config.originals))
    client = client_of(config, platform, simulated, own=own)
    acls = FollowedAcls(client, joined.acls, platform.scheduler.now_ms, platform.rng, joined.metadata.apply)
    timeout_ms = own.get("zookeeper.connection.timeout.ms", connection_timeout_ms(config))

    async def connect() -> None:
        await make_chroot(config, platform, simulated, timeout_ms, own)
        await connected(client, timeout_ms)

    return AclSession(client, acls, connect, begin, platform.failed)


def _connection_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """The configs of the broker's connection to ZooKeeper that the authorizer has otherwise."""
    names = {"url": "zookeeper.connect"}
    return {names.get(name, f"zookeeper.{name}"): value for name, value in own.items()}


def _sweep(platform: Platform, protection: ZooKeeperProtection, begin: Begin, interval_ms: float) -> None:
    timers: list[Any] = []

    async def sweep() -> None:
        try:
            await protection.sweep()
        except NoAnswer:
            return  # the next controller deletes them

    def due() -> None:
        begin(sweep())
        timers[:] = [platform.scheduler.call_later(interval_ms, due)]

    timers.append(platform.scheduler.call_later(interval_ms, due))
    platform.ends.callback(lambda: timers[0].cancel())
