"""``ssl.principal.mapping.rules``: how the distinguished name of a certificate becomes the name of a user (KIP-371).

Kafka's ``SslPrincipalMapper``: the first rule whose pattern matches the whole name counts. Patterns are matched by RE2
in linear time, since a client chooses the name. Patterns that RE2 does not know, or reads in another way than Java, are
refused. A name with a line break matches no pattern.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kpybroker.machines.java_patterns import Replacement, Unusable, compiled, replaced, replacement_of
from kpybroker.security.tls.settings import TlsError

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\$(\d+)")
_LINE_BREAKS: Final = frozenset("\n\r\x85\u2028\u2029")


class NoRuleApplies(Exception):
    """No rule matches the name of a certificate."""


class _MappingRule(NamedTuple):
    pattern: Any
    """None for the rule DEFAULT, which keeps the name."""
    replacement: Replacement = ()
    change_case: Callable[[str], str] = str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return self.change_case(replaced(self.pattern, self.replacement, name))


class MappingRules:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises TlsError if a rule cannot be used."""
        self._text = text
        self._rules: list[_MappingRule] = []
        for match in _SPLITTER.finditer(text.strip()):
            rule = _parsed(match[1])
            if rule is not None:
                self._rules.append(rule)

    def user_of(self, name: str) -> str:
        """The user whose certificate has this distinguished name. Raises NoRuleApplies."""
        has_break = not _LINE_BREAKS.isdisjoint(name)
        for rule in self._rules:
            user = None if has_break and rule.pattern is not None else rule.apply(name)
            if user is not None:
                return user
        raise NoRuleApplies(f"no rule of {KEY} applies to {name!r}")


def _parsed(text: str) -> _MappingRule | None:
    match = _PARSER.match(text)
    assert match is not None
    if match.end() != len(text):
        raise TlsError(f"{KEY}: Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _MappingRule(None)
    if match[2] is None:
        return None
    change_case: Callable[[str], str] = {"L": str.lower, "U": str.upper}.get(match[6], str)
    try:
        pattern = compiled(match[2])
        replacement = replacement_of(_with_literal_references(match[4], pattern.groups), pattern)
    except Unusable as why:
        raise TlsError(f"{KEY}: {why}") from None
    return _MappingRule(pattern, replacement, change_case)


def _with_literal_references(text: str, groups: int) -> str:
    """The replacement with a backslash before references to groups that are not there, where Kafka writes one.

    Kafka counts positions in the text before it was changed, so each backslash but the first is written too early.
    """
    if groups == 0:
        return text
    changed = text
    for match in _REFERENCE.finditer(text):
        if match[1].startswith("0"):
            continue
        number = int(match[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            changed = changed[: match.start()] + "\\" + changed[match.start() :]
    return changed
