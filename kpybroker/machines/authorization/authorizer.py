"""The decisions of ``StandardAuthorizer``: may a principal at an address do this with a resource?

Super users may do everything. Of the ACLs whose pattern covers the resource, those count that name the principal, the
address or a network that holds it, and the operation. A DENY among them denies, else an ALLOW allows. Where no ACL
covers the resource at all, ``allow.everyone.if.no.acl.found`` decides.

Decisions are remembered until an ACL changes. Invariant: what is remembered is what would be decided now, and its size
is bounded, whatever names clients ask for.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.authorization.index import AclIndex, PrincipalKey, principal_key
from kpybroker.machines.authorization.networks import IpAddress, address_of
from kpybroker.machines.authorization.resources import (
    IMPLIED_BY,
    WILDCARD,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.runtime.calls.principal import EVERYONE, Principal
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl

MOST_REMEMBERED: Final = 50_000
"""The number of decisions that are remembered; then all are forgotten."""
LONGEST_REMEMBERED: Final = 256
"""The length of the longest name that is remembered, in characters. No topic has a longer one."""
_PROBED_NAME: Final = "hardcode"
"""The resource that Kafka asks about where any will do (``Authorizer.authorizeByResourceType``)."""
_EVERYONE: Final = principal_key(EVERYONE)
EVERYTHING: Final = (PatternType.LITERAL, WILDCARD)
"""The pattern that covers all resources of a type."""


class MatchingRule(NamedTuple):
    """The rule that decides (``StandardAuthorizerData.MatchingRule``). ``name`` is Kafka's, ``acl`` is the matching
    one."""

    allows: bool
    name: str
    acl: Acl | None = None

    def __str__(self) -> str:
        return self.name if self.acl is None else f"{self.name}(acl={described(self.acl)})"


SUPER_USER: Final = MatchingRule(name="SuperUser", allows=True)
DEFAULT_ALLOW: Final = MatchingRule(name="DefaultAllow", allows=True)
DEFAULT_DENY: Final = MatchingRule(name="DefaultDeny", allows=False)

_Asker = tuple[Principal, str, AclOperation, ResourceType]


class Authorizer:
    """The ACLs of the committed metadata, with the super users of this node."""

    def __init__(
        self,
        super_users: frozenset[Principal],
        *,
        allows_without_acl: bool,
        awaits_acls: bool = False,
        reads_networks: bool = True,
    ) -> None:
        """``allows_without_acl``: ``allow.everyone.if.no.acl.found``. ``awaits_acls``: only super users are served
        until `caught_up`. ``reads_networks``: whether an ACL that names a network counts for its addresses, as from
        Kafka 4.4 on."""
        self.super_users = super_users
        self.allows_without_acl = allows_without_acl
        self._reads_networks = reads_networks
        self.awaits_acls = awaits_acls
        """Whether the ACLs are still being loaded. Only super users are served then."""
        self.allowed_count = 0
        self.denied_count = 0
        self._acls: dict[bytes, Acl] = {}
        self._indexes: dict[int, AclIndex] = {}
        self._rules: dict[_Asker, dict[str, MatchingRule]] = {}
        self._remembered = 0
        self._any: dict[_Asker, bool] = {}

    def caught_up(self) -> None:
        """Note that all ACLs are known."""
        self.awaits_acls = False

    @property
    def acl_count(self) -> int:
        """The number of ACLs."""
        return len(self._acls)

    def acls_changed(self, acls: Mapping[bytes, Acl], changed: Iterable[bytes]) -> None:
        """Decide by these ACLs from now on; ``changed`` are the ids of those that came, went or changed."""
        for acl_id in changed:
            before, after = self._acls.pop(acl_id, None), acls.get(acl_id)
            if before is not None:
                self._index(before).remove(acl_id, before)
            if after is not None:
                self._acls[acl_id] = after
                self._index(after).add(acl_id, after)
        self._forget()

    def allows(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether a principal at an address may do this with the resource of this type and name."""
        return self.decide(principal, host, operation, kind, name).allows

    def decide(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType, name: str
    ) -> MatchingRule:
        """The rule that allows or denies this; the decision is counted. Raises AuthorizerNotReady while ACLs are
        loaded."""
        asker = (principal, host, operation, kind)
        known = self._rules.get(asker)
        rule = None if known is None else known.get(name)
        if rule is None:
            rule = self._decided(principal, host, operation, kind, name)
            self._remember(asker, name, rule)
        if rule.allows:
            self.allowed_count += 1
        else:
            self.denied_count += 1
        return rule

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether a principal at an address may do this with any resource of a type
        (``Authorizer.authorizeByResourceType``).

        An ALLOW counts unless a DENY covers all that it allows. As in Kafka, no operation is implied by another here.
        """
        if self.decide(principal, host, operation, kind, _PROBED_NAME).allows:
            return True
        asker = (principal, host, operation, kind)
        verdict = self._any.get(asker)
        if verdict is None:
            verdict = self._allows_any(principal, host, operation, kind)
            self._any[asker] = verdict  # not more than there are rules: the decision above is one
        return verdict

    def _decided(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType, name: str
    ) -> MatchingRule:
        if principal in self.super_users:
            return SUPER_USER
        if self.awaits_acls:
            raise AuthorizerNotReady
        index = self._indexes.get(kind)
        covering = [] if index is None else index.covering(name)
        if not covering:
            return DEFAULT_ALLOW if self.allows_without_acl else DEFAULT_DENY
        principals, address = _principals(principal), self._address(host)
        denying, allowing = (operation, AclOperation.ALL), (operation, AclOperation.ALL, *IMPLIED_BY.get(operation, ()))
        last: Acl | None = None  # the one that Kafka's log names
        for pattern in covering:
            about = [each for one in principals if one in pattern for each in pattern[one].about(host, address)]
            for acl in sorted(about, key=_order) if len(about) > 1 else about:
                if acl.permission_type == Permission.DENY:
                    if acl.operation in denying:
                        return MatchingRule(name="MatchingAcl", allows=False, acl=acl)
                elif acl.permission_type == Permission.ALLOW and acl.operation in allowing:
                    last = acl
        return DEFAULT_DENY if last is None else MatchingRule(name="MatchingAcl", allows=True, acl=last)

    def _allows_any(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        denied = self._patterns(principal, host, operation, kind, Permission.DENY)
        allowed = self._patterns(principal, host, operation, kind, Permission.ALLOW)
        if EVERYTHING in denied:
            return False
        return EVERYTHING in allowed or any(not _is_dominated(pattern, denied) for pattern in allowed)

    def _patterns(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType, permission: Permission
    ) -> set[tuple[int, str]]:
        """The patterns of the ACLs of a type that allow or deny exactly this to a principal at an address."""
        index = self._indexes.get(kind)
        if index is None:
            return set()
        return {
            _pattern(acl)
            for acl in index.about(_principals(principal), host, self._address(host))
            if acl.operation in (operation, AclOperation.ALL) and acl.permission_type == permission
        }

    def _address(self, host: str) -> IpAddress | None:
        """The address that networks in ACLs are compared with; None if they count for nobody."""
        return address_of(host) if self._reads_networks else None

    def _remember(self, asker: _Asker, name: str, rule: MatchingRule) -> None:
        if len(name) > LONGEST_REMEMBERED:
            return
        if self._remembered >= MOST_REMEMBERED:
            self._forget()
        self._remembered += 1
        self._rules.setdefault(asker, {})[name] = rule

    def _forget(self) -> None:
        self._rules.clear()
        self._any.clear()
        self._remembered = 0

    def _index(self, acl: Acl) -> AclIndex:
        index = self._indexes.get(acl.resource_type)
        if index is None:
            index = self._indexes[acl.resource_type] = AclIndex()
        return index


def described(acl: Acl) -> str:
    """An ACL in Kafka's words (``StandardAcl.toString``)."""
    return (
        f"StandardAcl[resourceType={ResourceType.of(acl.resource_type).name}, resourceName={acl.resource_name}, "
        f"patternType={PatternType.of(acl.pattern_type).name}, principal={acl.principal}, host={acl.host}, "
        f"operation={AclOperation.of(acl.operation).name}, permissionType={Permission.of(acl.permission_type).name}]"
    )


def _principals(principal: Principal) -> Iterable[PrincipalKey]:
    """The principals of ACLs that hold for this one. As in Kafka, ``User:*`` stands for principals of all types."""
    return dict.fromkeys(((principal.principal_type, principal.name), _EVERYONE))


def _order(acl: Acl) -> tuple[int, str, str]:
    """The order in which Kafka reads the ACLs of a pattern (``StandardAcl.compareTo``)."""
    return acl.operation, acl.principal, acl.host


def _pattern(acl: Acl) -> tuple[int, str]:
    return acl.pattern_type, acl.resource_name


def _is_dominated(pattern: tuple[int, str], denied: set[tuple[int, str]]) -> bool:
    """Whether a denied pattern covers everything that an allowed one does."""
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))
