"""The ACLs in ZooKeeper: this broker follows them, and changes them for clients (Kafka's ``AclAuthorizer``).

Invariant: the ACLs of a resource are written only at the version at which they were read. If another broker was faster,
they are read and changed again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, NamedTuple

from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_path
from kpybroker.hosts.zookeeper.broker.notices import Notices, new_notice, write_together
from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError
from kpybroker.machines.authorization.resources import PatternType
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.failed_response import failed_response
from kpybroker.machines.zookeeper.broker import protection_records
from kpybroker.machines.zookeeper.broker.acl_requests import AclDeletion, Creation
from kpybroker.machines.zookeeper.broker.acl_requests import Acls as Entries
from kpybroker.machines.zookeeper.client import error_codes as zookeeper_errors
from kpybroker.machines.zookeeper.client.frames import WatchedEvent
from kpybroker.machines.zookeeper.client.operations import Create, Delete, Get, GetChildren, Set, Stat, Write
from kpybroker.machines.zookeeper.client.session import SessionState
from kpybroker.machines.zookeeper.tree import acls, paths
from kpybroker.machines.zookeeper.tree.acls import ResourcePattern
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes

log = logging.getLogger("kpybroker.zookeeper")

MOST_RETRIES: Final = 10
BACKOFF_MS: Final = 100
BACKOFF_JITTER_MS: Final = 50
MOST_BYTES: Final = 1_000_000
"""The most that is written at once. A server ends the connection for more than its ``jute.maxbuffer``, 1 MiB."""
_COMPARED_AT_ONCE: Final = 50
NO_VERSION: Final = -2
"""The version of a znode that is not there; no delete at this version succeeds."""
_PATTERNS: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_CHANGES: Final = {PatternType.LITERAL: paths.ACL_CHANGES, PatternType.PREFIXED: paths.EXTENDED_ACL_CHANGES}
_OTHERS_WERE_FASTER: Final = (zookeeper_errors.BAD_VERSION, zookeeper_errors.NODE_EXISTS, zookeeper_errors.NO_NODE)


class Versioned(NamedTuple):
    """The ACLs of a resource, and the version of their znode."""

    entries: Entries = ()
    version: int = NO_VERSION


class FollowedAcls:
    """The ACLs of all resources."""

    def __init__(
        self,
        client: ZooKeeperClient,
        znode_acls: DefaultAcls,
        now_ms: Callable[[], int],
        rng: Random,
        apply: Callable[[list[Any]], object],
    ) -> None:
        """``apply`` applies records to the image."""
        self._client = client
        self._znode_acls = znode_acls
        self._rng = rng
        self._apply = apply
        self._known: dict[ResourcePattern, Versioned] = {}
        """The resources that have ACLs."""
        self._changing = asyncio.Lock()
        self._literal = Notices(client, paths.ACL_CHANGES, now_ms, self._literal_noticed)
        self._extended = Notices(client, paths.EXTENDED_ACL_CHANGES, now_ms, self._extended_noticed)

    async def make_paths(self) -> None:
        """Create the parents where they are missing."""
        for pattern in _PATTERNS:
            store = acls.store(pattern)
            for kind in acls.RESOURCE_TYPES:
                await make_path(self._client, self._znode_acls, f"{store}/{kind.pascal_name}")
        for path in _CHANGES.values():
            await make_path(self._client, self._znode_acls, path)

    async def begin(self) -> None:
        """Follow the ACLs in a new session. Raises InvalidZnode if some cannot be understood."""
        await self.make_paths()
        await self.look()
        async with self._changing:
            found = await self._resources()
            for resource in dict.fromkeys((*found, *self._known)):
                self._note(resource, await self._read(resource))

    async def look(self) -> None:
        """Handle the notices that are new."""
        await self._literal.look()
        await self._extended.look()

    async def _literal_noticed(self, path: str, content: bytes | None) -> None:
        await self._noticed(acls.decode_literal_change(path, content))

    async def _extended_noticed(self, path: str, content: bytes | None) -> None:
        await self._noticed(acls.decode_extended_change(path, content))

    async def _noticed(self, resource: ResourcePattern) -> None:
        async with self._changing:
            self._note(resource, await self._read(resource))

    async def _resources(self) -> list[ResourcePattern]:
        found = []
        for pattern in _PATTERNS:
            store = acls.store(pattern)
            for name in (await self._client.ask_until_answered(GetChildren(store))).names:
                try:
                    kind = acls.resource_type(f"{store}/{name}", name)
                except InvalidZnode as error:
                    log.warning("Ignoring unknown ResourceType: %s", error)
                    continue
                children = await self._client.ask_until_answered(GetChildren(f"{store}/{name}"))
                found += [ResourcePattern(kind, each, pattern) for each in children.names]
        return found

    async def _read(self, resource: ResourcePattern) -> Versioned:
        found = await self._client.ask_if_there(Get(resource.path))
        if found is None:
            return Versioned()
        entries = tuple(dict.fromkeys(acls.decode_acls(resource.path, found.data)))
        return Versioned(entries, found.stat.version)

    def _note(self, resource: ResourcePattern, found: Versioned) -> None:
        before = self._known.get(resource, Versioned())
        if found.entries:
            self._known[resource] = found
        else:
            self._known.pop(resource, None)
        self._apply(protection_records.acls(resource, before.entries, found.entries))

    # Changes

    async def create(self, request: Any, call: Call) -> Any:
        """Answer CreateAcls."""
        try:
            creation = Creation(request)
        except KafkaError as error:
            return failed_response(request, call.api_version, error.code)
        async with self._changing:
            failures = await self._change_all(creation.added, creation.changed)
        return creation.response(failures)

    async def delete(self, request: Any, _call: Call) -> Any:
        """Answer DeleteAcls."""
        async with self._changing:
            deletion = AclDeletion(request)
            concerned = []
            for number, resource in enumerate(dict.fromkeys((*self._known, *deletion.named))):
                if number % _COMPARED_AT_ONCE == 0:
                    await asyncio.sleep(0)  # others are served meanwhile
                if deletion.concerns(resource):
                    concerned.append(resource)
            failures = await self._change_all(concerned, deletion.changed)
        return deletion.response(failures)

    async def _change_all(
        self, resources: Any, changed: Callable[[ResourcePattern, Entries], Entries]
    ) -> dict[ResourcePattern, KafkaError]:
        """Change the ACLs of these resources, and return those that could not be changed."""
        failures = {}
        for resource in resources:
            try:
                await self._change(resource, changed)
            except KafkaError as error:
                failures[resource] = error
            except (ZooKeeperError, InvalidZnode) as error:
                log.error("ACLs are not changed: %s", error)
                failures[resource] = KafkaError(error_codes.UNKNOWN_SERVER_ERROR, str(error))
        return failures

    async def _change(self, resource: ResourcePattern, changed: Callable[[ResourcePattern, Entries], Entries]) -> None:
        present = before = self._known.get(resource) or await self._read(resource)
        for _ in range(MOST_RETRIES + 1):
            wanted = changed(resource, present.entries)
            # `present` may have what another broker has written without a notice, and `before` what it has deleted
            is_news = not set(wanted) == set(before.entries) == set(present.entries)
            version = await self._write(resource, wanted, present.version, is_news=is_news)
            if version is not None:
                self._note(resource, Versioned(wanted, version))
                if is_news:
                    log.info("Updated ACLs for %s with new version %d", resource.path, version)
                return
            await asyncio.sleep((BACKOFF_MS + self._rng.randrange(BACKOFF_JITTER_MS)) / 1000)
            present = await self._read(resource)
        log.error("Failed to update ACLs for %s after %d retries", resource.path, MOST_RETRIES)
        raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)

    async def _write(self, resource: ResourcePattern, wanted: Entries, version: int, *, is_news: bool) -> int | None:
        """Write the ACLs of a resource, with a notice if they are news. Returns the new version of the znode; None if
        it did not have this one any more."""
        writes = self._writes(resource, wanted, version)
        if is_news:
            prefix = f"{_CHANGES[resource.pattern]}/{acls.CHANGE_PREFIX}"
            writes.append(new_notice(prefix, resource.encode_change(), self._znode_acls.of(prefix)))
        size = sum(len(each.path.encode()) + len(getattr(each, "data", None) or b"") for each in writes)
        if size > MOST_BYTES:
            text = f"The ACLs of this resource would take {size} bytes, of {MOST_BYTES} at most."
            raise KafkaError(error_codes.POLICY_VIOLATION, text)
        if not writes:
            return 0
        results = await write_together(self._client, writes, 0, _OTHERS_WERE_FASTER)
        if results is None:
            return None
        return results[0].version if isinstance(results[0], Stat) else 0

    def _writes(self, resource: ResourcePattern, wanted: Entries, version: int) -> list[Write]:
        """The write that makes these the ACLs of a resource; none if it has no znode and needs none."""
        path = resource.path
        if not wanted:
            return [] if version == NO_VERSION else [Delete(path, version)]
        content = acls.encode_acls(list(wanted))
        if version == NO_VERSION:
            return [Create(path, content, self._znode_acls.of(path))]
        return [Set(path, content, version)]


class AclSession:
    """The sessions of the authorizer with its ZooKeeper. As in Kafka they are its own."""

    def __init__(
        self,
        client: ZooKeeperClient,
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
        self._client.subscribe(self._happened, self._state_changed)
        await self.acls.begin()

    async def close(self, *, leave: bool) -> None:
        """End it. Without ``leave`` the connection is dropped as if the process had died."""
        self._is_closed = True
        if leave:
            await self._client.close()

    def _happened(self, event: WatchedEvent) -> None:
        if event.path in (paths.ACL_CHANGES, paths.EXTENDED_ACL_CHANGES):
            self._begin(self._tried(self.acls.look))

    def _state_changed(self, state: SessionState) -> None:
        if self._is_closed:
            return
        if state is SessionState.EXPIRED:
            self._client.open()
            self._begin(self._tried(self.acls.begin))
        elif state is SessionState.REFUSED:
            self._failed(f"ZooKeeper refuses the login of the authorizer: {self._client.why}")

    @staticmethod
    async def _tried(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NoAnswer:
            return  # the next session reads all of them
        except (ZooKeeperError, InvalidZnode) as error:
            log.error("Changes of ACLs cannot be followed: %s", error)
