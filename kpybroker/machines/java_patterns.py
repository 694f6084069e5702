"""Java's regular expressions and their replacements, matched by RE2 in linear time.

Patterns that RE2 does not know, or reads in another way than Java, are refused: the texts that they are applied to may
come from anybody. Replacements have the notation of Java's ``Matcher.appendReplacement``.
"""

from typing import Any, Final

from kpybroker.machines import re2_patterns

_DIGITS: Final = "0123456789"

Replacement = tuple[str | int, ...]
"""Texts, and numbers of groups."""


class Unusable(ValueError):
    """A pattern or a replacement that cannot be used. The message says why."""


def compiled(text: str) -> Any:
    """The pattern. Raises Unusable."""
    refusal = f"the pattern {text} cannot be used"
    if _has_nested_class(text):
        raise Unusable(f"{refusal}: Java's [a[b]] and [a&&b] are not supported; name the characters in one pair of []")
    try:
        return re2_patterns.compiled(text)
    except re2_patterns.InvalidPattern as invalid:
        raise Unusable(f"{refusal}: {invalid} (RE2 has no lookahead, backreference or possessive quantifier)") from None


def replaced(pattern: Any, replacement: Replacement, text: str, *, most: int = 0) -> str:
    """The text with every occurrence replaced, or the first ``most``, as ``String.replaceAll`` and ``replaceFirst`` do:
    also an empty one at the end."""
    written: list[str] = []
    position = copied = count = 0
    while position <= len(text) and (match := pattern.search(text, position)) is not None:
        written.append(text[copied : match.start()])
        written += [part if isinstance(part, str) else match.group(part) or "" for part in replacement]
        copied = match.end()
        position = match.end() + (match.end() == match.start())
        count += 1
        if count == most:
            break
    return "".join(written) + text[copied:]


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


def replacement_of(text: str, pattern: Any) -> Replacement:
    """The parts of a replacement. Raises Unusable."""
    parts: list[str | int] = []
    position = 0
    refusal = f"the replacement {text} cannot be used"
    while position < len(text):
        char = text[position]
        position += 1
        if char == "\\":
            if position == len(text):
                raise Unusable(f"{refusal}: it ends with a backslash")
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
            raise Unusable(f"{refusal}: it refers to a group that the pattern does not have")
        return int(pattern.groupindex[name]), position + len(name) + 2
    if position == len(text) or text[position] not in _DIGITS:
        raise Unusable(f"{refusal}: a $ is followed by the number of a group, or stands behind a backslash")
    group = int(text[position])
    position += 1
    if group > pattern.groups:
        raise Unusable(f"{refusal}: it refers to group {group}, which the pattern does not have")
    while position < len(text) and text[position] in _DIGITS:
        longer = 10 * group + int(text[position])
        if longer > pattern.groups:
            break
        group = longer
        position += 1
    return group, position
