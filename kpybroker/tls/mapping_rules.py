"""``ssl.principal.mapping.rules``: how the distinguished name of a certificate becomes the name of a user (KIP-371).

Kafka's ``SslPrincipalMapper``: the first rule whose pattern matches the whole name counts. Patterns are matched by RE2
in linear time, since a client chooses the name. Patterns that RE2 does not know, or reads in another way than Java, are
refused. A name with a line break matches no pattern.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kpybroker.tls.settings import TlsError

KEY: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\$(\d+)")
_LINE_BREAKS: Final = frozenset("\n\r\x85\u2028\u2029")
_DIGITS: Final = "0123456789"


class NoRuleApplies(Exception):
    """No rule matches the name of a certificate."""


class _Rule(NamedTuple):
    pattern: Any
    """None for the rule DEFAULT, which keeps the name."""
    replacement: tuple[str | int, ...] = ()
    """Texts, and numbers of groups."""
    change_case: Callable[[str], str] = str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        return self.change_case(self._replaced(name))

    def _replaced(self, name: str) -> str:
        """The name with every occurrence replaced, as ``String.replaceAll`` does it: also an empty one at the end."""
        written: list[str] = []
        position = copied = 0
        while position <= len(name) and (match := self.pattern.search(name, position)) is not None:
            written.append(name[copied : match.start()])
            written += [part if isinstance(part, str) else match.group(part) or "" for part in self.replacement]
            copied = match.end()
            position = match.end() + (match.end() == match.start())
        return "".join(written) + name[copied:]


class MappingRules:
    """The rules of one listener."""

    def __init__(self, text: str) -> None:
        """Raises TlsError if a rule cannot be used."""
        self._text = text
        self._rules: list[_Rule] = []
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


def _parsed(text: str) -> _Rule | None:
    match = _PARSER.match(text)
    assert match is not None
    if match.end() != len(text):
        raise TlsError(f"{KEY}: Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(None)
    if match[2] is None:
        return None
    pattern = _compiled(match[2])
    change_case: Callable[[str], str] = {"L": str.lower, "U": str.upper}.get(match[6], str)
    return _Rule(pattern, _replacement(match[4], pattern), change_case)


def _compiled(text: str) -> Any:
    import re2

    refusal = f"{KEY}: the pattern {text} cannot be used"
    if _has_nested_class(text):
        raise TlsError(f"{refusal}: Java's [a[b]] and [a&&b] are not supported; name the characters in one pair of []")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        why = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else error
        raise TlsError(f"{refusal}: {why} (RE2 has no lookahead, backreference or possessive quantifier)") from None


def _has_nested_class(text: str) -> bool:
    """Whether a character class contains another or an intersection: Java reads these differently."""
    is_inside = False
    position = 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
        elif is_inside:
            if char == "[" or text.startswith("&&", position):
                return True
            is_inside = char != "]"
        elif char == "[":
            is_inside = True
        position += 1
    return False


def _replacement(text: str, pattern: Any) -> tuple[str | int, ...]:
    """The parts of a replacement in the notation of Java's ``Matcher.appendReplacement``."""
    text = _with_literal_references(text, pattern.groups)
    parts: list[str | int] = []
    position = 0
    refusal = f"{KEY}: the replacement {text} cannot be used"
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            if position == len(text):
                raise TlsError(f"{refusal}: it ends with a backslash")
            parts.append(text[position])
            position += 1
        elif char == "$":
            group, position = _reference(text, position, pattern, refusal)
            parts.append(group)
        else:
            parts.append(char)
    return tuple(parts)


def _reference(text: str, position: int, pattern: Any, refusal: str) -> tuple[int, int]:
    """The group that a reference means, and the position behind it: as many digits as make a number of a group."""
    if text.startswith("{", position):
        name, brace, _ = text[position + 1 :].partition("}")
        if not brace or name not in pattern.groupindex:
            raise TlsError(f"{refusal}: it refers to a group that the pattern does not have")
        return int(pattern.groupindex[name]), position + len(name) + 2
    if position == len(text) or text[position] not in _DIGITS:
        raise TlsError(f"{refusal}: a $ is followed by the number of a group, or stands behind a backslash")
    group = int(text[position])
    position += 1
    if group > pattern.groups:
        raise TlsError(f"{refusal}: it refers to group {group}, which the pattern does not have")
    while position < len(text) and text[position] in _DIGITS:
        longer = 10 * group + int(text[position])
        if longer > pattern.groups:
            break
        group = longer
        position += 1
    return group, position


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
