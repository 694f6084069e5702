"""``sasl.kerberos.principal.to.local.rules``: how the name of a Kerberos principal becomes the name of a user.

Kafka's ``KerberosShortNamer``: the first rule that applies counts, and there is no user if none does. A rule is
``DEFAULT``, which takes the first component of names in the default realm, or
``RULE:[n:format](pattern)s/from/to/g/L`` for names of n components. The parts behind the format may be left out.
Patterns are matched by RE2. A pattern or a replacement that cannot be used is refused when the rules are read.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kpybroker.machines.java_patterns import Replacement, Unusable, compiled, replaced, replacement_of

KEY: Final = "sasl.kerberos.principal.to.local.rules"
_NAME: Final = re.compile(r"([^/@]*)(/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[([0-9]*):([^\]]*)\](\(([^)]*)\))?(s/([^/]*)/([^/]*)/(g)?)?/?([LU])?", re.ASCII
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)", re.ASCII)
_LINE_BREAKS: Final = frozenset("\n\r\x85\u2028\u2029")
_MOST_COMPONENTS: Final = (1 << 31) - 1
_MOST_DIGITS: Final = len(str(_MOST_COMPONENTS))


class BrokenRules(ValueError):
    """Rules that cannot be used. The message says why."""


class NoUser(Exception):
    """A principal whose name becomes no user's."""


class KerberosName(NamedTuple):
    """The name of a principal, ``service/host@REALM``."""

    service: str
    """The first component: of a user its name."""
    host: str | None = None
    realm: str | None = None

    def __str__(self) -> str:
        host = "" if self.host is None else f"/{self.host}"
        realm = "" if self.realm is None else f"@{self.realm}"
        return f"{self.service}{host}{realm}"


def parse(name: str) -> KerberosName:
    """The parts of a name; a name without a realm is one part. Raises NoUser."""
    found = _NAME.fullmatch(name)
    if found is not None:
        return KerberosName(found[1], found[3], found[4])
    if "@" in name:
        raise NoUser(f"{name[:64]!r} is no name of a principal with one or two components")
    return KerberosName(name)


class _KerberosRule(NamedTuple):
    components: int | None
    """The number of components of the names that it applies to; None for the rule DEFAULT."""
    format: tuple[str | int, ...] = ()
    """Texts, and numbers of components; 0 is the realm."""
    pattern: Any = None
    substituted: Any = None
    replacement: Replacement = ()
    most: int = 1
    """The number of occurrences that are replaced; 0 for all."""
    change_case: Callable[[str], str] = str

    def apply(self, parts: Sequence[str]) -> str | None:
        if len(parts) - 1 != self.components:
            return None
        name = "".join(part if isinstance(part, str) else _component(parts, part) for part in self.format)
        # Java's patterns stop at line breaks, and RE2's do not.
        if self.pattern is not None and (self.pattern.fullmatch(name) is None or not _LINE_BREAKS.isdisjoint(name)):
            return None
        if self.substituted is not None:
            return replaced(self.substituted, self.replacement, name, most=self.most)
        return name


class ShortNamer:
    """The rules of one listener."""

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        """``default_realm`` is empty if there is none. Raises BrokenRules."""
        self._rules = [_parsed(rule) for rule in rules]
        self._default_realm = default_realm

    def user_of(self, name: str) -> str:
        """The user of a principal. Raises NoUser."""
        principal = parse(name)
        if principal.realm is None:
            return principal.service
        parts = [principal.realm, principal.service]
        if principal.host is not None:
            parts.append(principal.host)
        for rule in self._rules:
            if rule.components is None:
                user = principal.service if principal.realm == self._default_realm else None
            else:
                user = rule.apply(parts)
            if user is not None:
                if "/" in user or "@" in user:
                    raise NoUser(f"a rule of {KEY} makes {user[:64]!r} of {name[:64]!r}; a user has no '/' and no '@'")
                return rule.change_case(user)
        raise NoUser(f"no rule of {KEY} applies to {name[:64]!r}")


def _component(parts: Sequence[str], number: int) -> str:
    if number >= len(parts):
        raise NoUser(f"a rule of {KEY} names component {number} of {len(parts) - 1}")
    return parts[number]


def _parsed(text: str) -> _KerberosRule:
    found = _RULE.match(text)
    if found is None:
        raise BrokenRules(f"{KEY}: Invalid rule: {text}")
    if found.end() != len(text):
        raise BrokenRules(f"{KEY}: Invalid rule: `{text}`, unmatched substring: `{text[found.end() :]}`")
    if found[1] is not None:
        return _KerberosRule(None)
    components = int(found[2]) if found[2] and len(found[2]) <= _MOST_DIGITS else None
    if components is None or components > _MOST_COMPONENTS:
        raise BrokenRules(f"{KEY}: Invalid rule: {text}: the number of components is missing or not possible")
    try:
        pattern = None if found[5] is None else compiled(found[5])
        substituted = None if found[7] is None else compiled(found[7])
        replacement = () if found[8] is None else replacement_of(found[8], substituted)
    except Unusable as why:
        raise BrokenRules(f"{KEY}: {why}") from None
    change_case: Callable[[str], str] = {"L": str.lower, "U": str.upper}.get(found[10] or "", str)
    most = 0 if found[9] else 1
    return _KerberosRule(components, _format(text, found[3]), pattern, substituted, replacement, most, change_case)


def _format(rule: str, text: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    position = 0
    for found in _PARAMETER.finditer(text):
        if not found[1] or len(found[1]) > _MOST_DIGITS:
            raise BrokenRules(f"{KEY}: Invalid rule: {rule}: a $ is followed by the number of a component")
        parts += [text[position : found.start()], int(found[1])]
        position = found.end()
    return (*parts, text[position:])
