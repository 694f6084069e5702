"""The rules of a world with an authorizer and client quotas, checked after each event and at each decision.

- A node decides by the ACLs that it has, as `tests.sim.acls` decides, whatever it remembers.
- The authorizer and the quotas of a node are those of its metadata.
- A connection is muted no longer than it has to be, and its next answer does not come before.
- There are no more shares of a quota than clients.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kpybroker.machines.authorization.authorizer import Authorizer

from .acls import Acl, Need, is_allowed
from .identities import NODE, OPERATOR, identified
from .quota_rules import Quotas, limit_for, limits_of

if TYPE_CHECKING:
    from .machine import Machine
    from .network import Host
    from .world import World

LATE_MS = 2_000.0
"""A mute that is over has ended within this time, on a node that runs."""
CLIENTS_OF_A_HOST = 8
"""A node has a client id for each purpose for which it asks others."""
STOLEN = "stolen"
"""The name of everything that a guest tries to make for itself and nobody ever allows."""

Acls = frozenset[Acl]


class Guarding:
    """All of it."""

    def __init__(self, world: "World", machines: "list[Machine]", windows: int) -> None:
        self.world = world
        self.machines = machines
        self._by_host = {machine.host: machine for machine in machines}
        self._present: dict[Host | None, Acls] = {machine.host: frozenset() for machine in machines}
        """By node: the ACLs that it has; none before it has read its metadata."""
        self._exact: dict[Authorizer, Acls] = {}
        self._changes: list[Acls] = []
        """The ACLs that any node came to have, in this order."""
        self._images: dict[int, int] = {}
        """By the end of metadata: a digest of their ACLs, quotas and users."""
        self._seen: dict[int, tuple[int, int]] = {}
        """By node: its life, and the end of its metadata when they were last checked."""
        self._windows = windows
        """The number of windows of a quota, of a second each."""
        self.allowed = self.denied = 0
        """The decisions about guests."""

    # The ACLs that nodes have

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch as long as this lasts."""
        decide, changed = Authorizer.decide, Authorizer.acls_changed

        def decided(authorizer: Any, principal: Any, host: str, operation: Any, kind: Any, name: str) -> Any:
            rule = decide(authorizer, principal, host, operation, kind, name)
            if principal.name not in (NODE, OPERATOR):
                self._decided(authorizer, str(principal), host, Need(int(operation), int(kind), name), rule)
            return rule

        def acls_changed(authorizer: Any, acls: Any, ids: Iterable[bytes]) -> None:
            changed(authorizer, acls, ids)
            self._changed(authorizer, frozenset(map(Acl.of, acls.values())))

        Authorizer.decide = decided  # type: ignore[method-assign]
        Authorizer.acls_changed = acls_changed  # type: ignore[method-assign]
        try:
            with identified():
                yield
        finally:
            Authorizer.decide, Authorizer.acls_changed = decide, changed  # type: ignore[method-assign]

    def died(self, machine: "Machine") -> None:
        """A process has ended; the next one knows nothing yet."""
        self._note(machine.host, frozenset())

    def _note(self, host: "Host | None", acls: Acls) -> None:
        self._present[host] = acls
        self._changes.append(acls)

    def _changed(self, authorizer: Authorizer, acls: Acls) -> None:
        self._exact[authorizer] = acls
        self._note(self.world.acted, acls)
        if any(each.host == STOLEN for each in acls):
            self.world.violated("a guest has created an ACL, which nobody ever allowed")

    def _decided(self, authorizer: Authorizer, user: str, host: str, need: Need, rule: Any) -> None:
        expected = is_allowed(self._exact.get(authorizer, ()), user, host, need)
        if rule.allows != expected:
            words = "allowed" if rule.allows else "denied"
            self.world.violated(f"{user} at {host} is {words} {need} by {rule}, and by the ACLs of the node it is not")
        if rule.allows:
            self.allowed += 1
        else:
            self.denied += 1

    def window(self) -> "Window":
        """The ACLs that some node may have, from now on."""
        return Window(list(self._present.values()), self._changes, len(self._changes))

    def limit_at(self, node_id: int, kind: str, user: str, client_id: str) -> tuple[object, float] | None:
        """The life of a node with the client quota that counts there now; None if it has none."""
        machine = next(each for each in self.machines if each.node_id == node_id)
        if machine.node is None or machine.node.quorum is None:
            return None
        quotas = limits_of(machine.node.quorum.image.client_quotas)
        limit = limit_for(quotas, kind, user.partition(":")[2], client_id)
        return None if limit is None else ((machine.lives, machine.node.quorum.image.next_offset), limit)

    def least_wait_ms(self, size: int, limit: float) -> float:
        """The least time for which a client has to wait after this number of bytes, whatever it sent before. A rate is
        measured over all windows but one at least, and over one more at most."""
        return (size / (self._windows + 1) - limit) / limit * (self._windows - 1) * 1_000 - 1

    def mutes(self, node_id: int) -> bool:
        """Whether a node has client quotas now."""
        node = next(each.node for each in self.machines if each.node_id == node_id)
        return node is not None and node.dispatcher is not None and node.dispatcher.stage is not None

    # After each event

    def look(self) -> None:
        """Check the node that has acted, before others forget which one it was."""
        machine = self._by_host.get(self.world.acted) if self.world.acted is not None else None
        if machine is None or machine.node is None or machine.node.quorum is None:
            return
        host, node = machine.node.quorum, machine.node
        self._look_at_mutes(machine)
        seen = machine.lives, host.image.next_offset
        committed = host._committed
        is_at_rest = committed.is_at_rest and committed.published_offset == host.image.next_offset
        if self._seen.get(machine.node_id) == seen or not is_at_rest:
            return
        self._seen[machine.node_id] = seen
        self._look_at_image(machine, host.image)
        if node.broker is None:
            return
        authorizer = node.broker.authorizer
        if authorizer is None or authorizer._acls != host.image.acls:
            self.world.violated(f"the authorizer of {machine} has other ACLs than its metadata")
        self._look_at_quotas(machine)

    def _look_at_image(self, machine: "Machine", image: Any) -> None:
        kept: list[Any] = [
            sorted((acl_id, Acl.of(each)) for acl_id, each in image.acls.items()),
            sorted((str(entity), sorted(each.items())) for entity, each in image.client_quotas.items()),
            sorted((*key, each.iterations, each.salt) for key, each in image.scram_credentials.items()),
        ]
        digest = crc32(repr(kept).encode())
        if self._images.setdefault(image.next_offset, digest) != digest:
            self.world.violated(f"ACLs, quotas or users at offset {image.next_offset} are not the same on {machine}")

    def _look_at_quotas(self, machine: "Machine") -> None:
        node: Any = machine.node
        if node.dispatcher is None:
            return
        quotas = limits_of(node.quorum.image.client_quotas)
        stage = node.dispatcher.stage
        found = Quotas() if stage is None else stage.quotas._limits
        if found != quotas:
            self.world.violated(f"{machine} has the quotas {found}, and its metadata {quotas}")
        if stage is not None:
            most = CLIENTS_OF_A_HOST * len(machine.network.hosts)
            for throttle in (stage.produce, stage.fetch, stage.request):
                if len(throttle) > most:
                    self.world.violated(f"{machine} remembers {len(throttle)} shares of {most} clients")

    def _look_at_mutes(self, machine: "Machine") -> None:
        server = machine.node.server if machine.node is not None else None
        if server is None or not server.mutes._heap:
            return
        now_ms = machine.host.monotonic_ms()
        until_ms = server.mutes._heap[0][0]
        stood_still = machine.loop is not None and machine.loop.resumes_ms + LATE_MS > self.world.now_ms
        if until_ms + LATE_MS < now_ms and not stood_still:
            self.world.violated(
                f"{machine} has a connection muted that was to be served {now_ms - until_ms:.0f} ms ago"
            )


class Window:
    """The ACLs that some node had between two moments."""

    def __init__(self, present: list[Acls], changes: list[Acls], first: int) -> None:
        self._present = present
        self._changes = changes
        self._first = first
        self._last: int | None = None

    def close(self) -> None:
        """It ends now."""
        self._last = len(self._changes)

    def _all(self) -> Iterator[Acls]:
        yield from self._present
        yield from self._changes[self._first : self._last]

    def ever_allowed(self, user: str, host: str, needs: Iterable[Need]) -> bool:
        """Whether any node may have allowed one of these."""
        return any(is_allowed(acls, user, host, need) for acls in self._all() for need in needs)

    def ever_denied(self, user: str, host: str, needs: Iterable[Need]) -> bool:
        """Whether any node may have denied all of these."""
        wanted = list(needs)
        return any(not any(is_allowed(acls, user, host, need) for need in wanted) for acls in self._all())
