"""The delegation tokens in ZooKeeper: this broker follows them, and changes them for clients (Kafka's
``DelegationTokenManagerZk``).

The controller deletes those that have expired. The HMAC of a token is never written.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Any

from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_path
from kpybroker.hosts.zookeeper.broker.notices import Notices, new_notice, write_together
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperError
from kpybroker.machines.controller.state import TokenSettings
from kpybroker.machines.controller.token_index import TokenIndex
from kpybroker.machines.controller.token_rules import has_expired
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.failed_response import failed_response
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.broker import protection_records, token_requests
from kpybroker.machines.zookeeper.broker.token_requests import TokenChange
from kpybroker.machines.zookeeper.client import error_codes as zookeeper_errors
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Get, GetChildren, Set
from kpybroker.machines.zookeeper.tree import paths, tokens
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.tokens import TokenContent
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes, uuid
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

log = logging.getLogger("kpybroker.zookeeper")


class FollowedTokens:
    """The tokens. Exists only where ``delegation.token.secret.key`` is set."""

    def __init__(
        self,
        client: ZooKeeperClient,
        znode_acls: DefaultAcls,
        image: MetadataImage,
        settings: TokenSettings,
        now_ms: Callable[[], int],
        rng: Random,
        apply: Callable[[list[Any]], object],
    ) -> None:
        """``now_ms`` is the wall clock. ``apply`` applies records to the image."""
        self._client = client
        self._znode_acls = znode_acls
        self._image = image
        self._settings = settings
        self._now_ms = now_ms
        self._rng = rng
        self._apply = apply
        self._index = TokenIndex(settings.secret, image)
        self._notices = Notices(client, paths.TOKEN_CHANGES, now_ms, self._noticed)

    async def begin(self) -> None:
        """Follow the tokens in a new session."""
        for path in (paths.TOKEN_CHANGES, paths.TOKENS):
            await make_path(self._client, self._znode_acls, path)
        found = (await self._client.ask_until_answered(GetChildren(paths.TOKENS))).names
        for token_id in dict.fromkeys((*found, *self._image.delegation_tokens)):
            await self._read(token_id)
        await self.look()

    async def look(self) -> None:
        """Handle the notices that are new."""
        await self._notices.look()

    async def _noticed(self, path: str, content: bytes | None) -> None:
        token_id = (content or b"").decode("utf-8", "replace")
        if not token_id or "/" in token_id:
            raise InvalidZnode(path, "it names no token")
        await self._read(token_id)

    async def _read(self, token_id: str) -> None:
        try:
            found = await self._client.ask_until_answered(Get(paths.token(token_id)))
            token = TokenContent.decode(token_id, found.data) if found.data else None
        except ZooKeeperError as error:
            if error.code != zookeeper_errors.NO_NODE:
                log.error("%s; the token that was known before stays", error)
                return
            token = None
        except InvalidZnode as error:
            log.error("%s; the token that was known before stays", error)
            return
        self._note(token_id, token)

    def _note(self, token_id: str, token: TokenContent | None) -> None:
        self._apply(protection_records.tokens(self._image, token_id, token))
        self._index.changed(token_id)

    # Changes

    async def create(self, request: Any, call: Call) -> Any:
        """Answer CreateDelegationToken."""
        token = token_requests.created(request, call.principal, self._new_id(), self._settings, self._now_ms())
        try:
            await self._write(token.token_id, token)
        except ZooKeeperError as error:
            return self._failed(request, call, error)
        return token_requests.creation_response(token, self._settings.secret.hmac_of(token.token_id), call.api_version)

    async def renew(self, request: RenewDelegationTokenRequest, call: Call) -> Any:
        """Answer RenewDelegationToken."""

        def decide() -> TokenChange:
            record, default_ms = self._found(request.hmac), self._settings.expiry_time_ms
            now_ms = self._now_ms()
            return token_requests.renewed(record, call.principal, request.renew_period_ms, default_ms, now_ms)

        return await self._changed(request, call, request.hmac, decide, RenewDelegationTokenResponse)

    async def expire(self, request: ExpireDelegationTokenRequest, call: Call) -> Any:
        """Answer ExpireDelegationToken."""

        def decide() -> TokenChange:
            record = self._found(request.hmac)
            return token_requests.expired(record, call.principal, request.expiry_time_period_ms, self._now_ms())

        return await self._changed(request, call, request.hmac, decide, ExpireDelegationTokenResponse)

    async def delete_expired(self) -> None:
        """Delete the tokens that have expired. Only the controller does it."""
        now_ms = self._now_ms()
        doomed = [each for each in self._image.delegation_tokens.values() if has_expired(each, now_ms)]
        for each in doomed:
            log.info("Delegation token expired for token: %s for owner: %s", each.token_id, each.owner)
            try:
                await self._write(each.token_id, None)
            except ZooKeeperError as error:
                log.warning("%s", error)

    async def _changed(
        self, request: Any, call: Call, token_hmac: bytes, decide: Callable[[], TokenChange], new_response: Any
    ) -> Any:
        try:
            change = decide()
            await self._write(self._found(token_hmac).token_id, change.token)
        except KafkaError as error:
            return new_response(throttle_time_ms=0, error_code=error.code, expiry_timestamp_ms=-1)
        except ZooKeeperError as error:
            return self._failed(request, call, error)
        return new_response(throttle_time_ms=0, error_code=error_codes.NONE, expiry_timestamp_ms=change.expiry_ms)

    @staticmethod
    def _failed(request: Any, call: Call, error: ZooKeeperError) -> Any:
        log.error("A delegation token is not changed: %s", error)
        return failed_response(request, call.api_version, error_codes.UNKNOWN_SERVER_ERROR)

    def _found(self, token_hmac: bytes) -> Any:
        record = self._index.find(token_hmac)
        if record is None:
            raise KafkaError(error_codes.DELEGATION_TOKEN_NOT_FOUND)
        return record

    async def _write(self, token_id: str, token: TokenContent | None) -> None:
        """Replace, create or delete a token."""
        path = paths.token(token_id)
        prefix = f"{paths.TOKEN_CHANGES}/{tokens.CHANGE_PREFIX}"
        notice = new_notice(prefix, token_id.encode(), self._znode_acls.of(prefix))
        content = b"" if token is None else token.encode()
        write = Delete(path) if token is None else Set(path, content)
        if await write_together(self._client, (write, notice), 0, [zookeeper_errors.NO_NODE]) is None:
            if token is None:
                await self._client.ask_until_answered(notice)
            else:
                create = Create(path, content, self._znode_acls.of(path))
                # it exists after an own create whose answer was lost
                await write_together(self._client, (create, notice), 0, [zookeeper_errors.NODE_EXISTS])
        self._note(token_id, token)

    def _new_id(self) -> str:
        while True:
            value = uuid.random_uuid(self._rng.randbytes(uuid.UUID_BYTES))
            token_id = uuid.to_string(value)
            if uuid.usable(value) and token_id not in self._image.delegation_tokens:
                return token_id
