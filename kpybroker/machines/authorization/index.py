"""The ACLs of one resource type, to be found by the name of a resource or by a principal. Pure.

A name is covered by the LITERAL pattern of its own, by every PREFIXED pattern that it begins with, and by the LITERAL
pattern ``*``. Prefixes are found by their lengths: a name is cut at each length that any prefix has, so the cost does
not depend on the number of ACLs. Each pattern keeps its ACLs by principal, and those by host.
"""

from collections.abc import Iterable, Iterator

from kpybroker.machines.authorization.hosts import AclsByHost
from kpybroker.machines.authorization.networks import IpAddress
from kpybroker.machines.authorization.resources import WILDCARD, PatternType
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl

PrincipalKey = tuple[str, str]
"""The type and the name of a principal."""
ByPrincipal = dict[PrincipalKey, AclsByHost]


def principal_key(principal: str) -> PrincipalKey:
    """The principal of an ACL: ``User:alice``. A name may contain colons (``StandardAcl.kafkaPrincipal``)."""
    principal_type, _, name = principal.partition(":")
    return principal_type, name


class AclIndex:
    """The ACLs of one resource type."""

    __slots__ = ("_by_principal", "_lengths", "_literals", "_prefixes")

    def __init__(self) -> None:
        self._literals: dict[str, ByPrincipal] = {}
        self._prefixes: dict[str, ByPrincipal] = {}
        self._lengths: dict[int, int] = {}
        """The number of prefixes of each length, the longest first."""
        self._by_principal: ByPrincipal = {}

    def add(self, acl_id: bytes, acl: Acl) -> None:
        """Add an ACL whose id is new."""
        principal = principal_key(acl.principal)
        patterns = self._patterns(acl)
        if acl.resource_name not in patterns:
            patterns[acl.resource_name] = {}
            if patterns is self._prefixes:
                self._count(len(acl.resource_name), 1)
        for holder in (patterns[acl.resource_name], self._by_principal):
            if principal not in holder:
                holder[principal] = AclsByHost()
            holder[principal].add(acl_id, acl)

    def remove(self, acl_id: bytes, acl: Acl) -> None:
        """Remove an ACL that was added."""
        principal = principal_key(acl.principal)
        patterns = self._patterns(acl)
        pattern = patterns[acl.resource_name]
        for holder in (pattern, self._by_principal):
            acls = holder[principal]
            acls.remove(acl_id, acl)
            if not acls:
                del holder[principal]
        if not pattern:
            del patterns[acl.resource_name]
            if patterns is self._prefixes:
                self._count(len(acl.resource_name), -1)

    def covering(self, name: str) -> list[ByPrincipal]:
        """The patterns that cover a name, the most specific first, each as its ACLs by principal."""
        found = []
        literal = self._literals.get(name)
        if literal is not None:
            found.append(literal)
        for length in self._lengths:
            if length <= len(name):
                prefix = self._prefixes.get(name[:length])
                if prefix is not None:
                    found.append(prefix)
        if name != WILDCARD:
            wildcard = self._literals.get(WILDCARD)
            if wildcard is not None:
                found.append(wildcard)
        return found

    def about(self, principals: Iterable[PrincipalKey], host: str, address: IpAddress | None) -> Iterator[Acl]:
        """All ACLs that name one of these principals and count for a client at a host."""
        for principal in principals:
            acls = self._by_principal.get(principal)
            if acls is not None:
                yield from acls.about(host, address)

    def _patterns(self, acl: Acl) -> dict[str, ByPrincipal]:
        return self._prefixes if acl.pattern_type == PatternType.PREFIXED else self._literals

    def _count(self, length: int, change: int) -> None:
        before = self._lengths.get(length, 0)
        self._lengths[length] = before + change
        if not before + change:
            del self._lengths[length]
        elif not before:
            self._lengths = dict(sorted(self._lengths.items(), reverse=True))
