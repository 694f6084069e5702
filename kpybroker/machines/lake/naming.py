"""The names of columns: a field's own where the table format takes it, or with eight digits behind it. Pure.

Engines compare names without case, and not all alike. So names that differ in case alone, by any engine's rule, are
one name here, and the second field of it gets digits. A column keeps its name for ever: where a table has a field's
name with digits, the field stays there, even if its own name would do today.
"""

import re
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

CONFLICT: Final = "__str"
"""Behind the name of the column ``x``, the column of values that do not fit ``x``; for JSON alone."""
RESERVED: Final = frozenset(
    ("_topic_id", "_partition", "_offset", "_timestamp", "_key", "_headers", "_epoch", "_reason", "_gone")
)
MOST_LETTERS: Final = 255
MOST_PREFIX_LETTERS: Final = 60
_WITH_DIGITS: Final = re.compile(r"__[0-9a-f]{8}\Z")


class NamingRule(NamedTuple):
    """The names that a table format takes."""

    refused: frozenset[str] = frozenset()
    """Characters that no name may have."""
    reserved: frozenset[str] = frozenset()
    """Names of the format's own columns."""
    escapes: bool = False
    """Whether files hold names with escapes in them, as Avro's names have, which must differ, too."""

    def key(self, name: str) -> str:
        """The text by which two names are the same for an engine."""
        return folded(escaped(name) if self.escapes else name)

    def takes(self, name: str) -> bool:
        """Whether a column may have this name, whatever other columns there are."""
        return 0 < len(name) <= MOST_LETTERS and "\0" not in name and self.refused.isdisjoint(name)


DELTA: Final = NamingRule(
    frozenset(" ,;{}()\n\t="), frozenset(("_change_type", "_commit_version", "_commit_timestamp"))
)
ICEBERG: Final = NamingRule(
    reserved=frozenset(("_file", "_pos", "_deleted", "_spec_id", "_row_id", "_last_updated_sequence_number")),
    escapes=True,
)
_OF_DELTA_RS: Final = "__delta_rs"
"""Names of columns that delta-rs adds while it merges begin so."""


def folded(name: str) -> str:
    """A name without case, as coarse as any engine has it: ``ẞ`` is ``ß``, ``İ``, ``I`` and ``ı`` are ``i``."""
    if name.isascii():
        return name.lower()
    return "".join(map(_folded_letter, name)).replace("i\u0307", "i")


def _folded_letter(letter: str) -> str:
    upper = letter.upper()
    return (upper if len(upper) == 1 else letter).lower()[0]


def escaped(name: str) -> str:
    """A name as Iceberg's files have it, by the rules for names in Avro."""
    return "".join(
        letter if letter == "_" or (letter.isalnum() if place else letter.isalpha()) else _escape(letter)
        for place, letter in enumerate(name)
    )


def _escape(letter: str) -> str:
    return f"_{letter}" if letter.isdigit() else f"_x{ord(letter):X}"


def with_digits(field: str, salt: int = 0) -> str:
    """A name that every format takes, with the checksum of the field's name behind it."""
    digits = zlib.crc32(field.encode("utf-8", "surrogatepass") + b"\0" * salt)
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', field)[:MOST_PREFIX_LETTERS]}__{digits:08x}"


class ColumnNames:
    """The names of the columns of a table, and the column of each field."""

    def __init__(
        self, rule: NamingRule, own: Iterable[str] = (), others: Iterable[str] = (), *, conflicts: bool
    ) -> None:
        """``own`` are the table's columns of fields, ``others`` columns that no field may have. With ``conflicts``,
        names that end with `CONFLICT` are of other columns than a field's own."""
        self._rule = rule
        self._conflicts = conflicts
        self._own = set(own)
        self._reserved = {folded(name) for name in (*RESERVED, *rule.reserved, *others)}
        self._taken: dict[str, str] = {rule.key(name): name for name in self._own}
        self._columns: dict[str, str] = {}
        self._fields: dict[str, str] = {}

    def column(self, field: str) -> str:
        """The name of a field's column, which the table has or may get."""
        name = self._columns.get(field)
        if name is None:
            name = self._columns[field] = self._named(field)
            self._fields[name] = field
        return name

    def _named(self, field: str) -> str:
        salt = 0
        while self._fields.get(digits := with_digits(field, salt), field) != field:
            salt += 1  # another field has the same checksum
        if digits in self._own:
            return digits
        has_its_own = field in self._own or self._rule.takes(field)
        is_free = has_its_own and self._taken.get(self._rule.key(field), field) == field
        return field if is_free and not self._is_reserved(field) else digits

    def _is_reserved(self, field: str) -> bool:
        if self._conflicts and field.endswith(CONFLICT):
            return True
        text = folded(field)
        if _WITH_DIGITS.search(text):
            return True
        if field in self._own:
            return field in RESERVED
        is_conflict = self._conflicts and text.endswith(CONFLICT)
        return is_conflict or text.partition(".")[0] in self._reserved or text.startswith(_OF_DELTA_RS)

    def conflict(self, column: str) -> str:
        """The name of the column for values that do not fit this one."""
        name = column + CONFLICT
        return name if self._taken.get(self._rule.key(name), name) == name else with_digits(column) + CONFLICT

    def take(self, name: str) -> None:
        """The table gets this column."""
        self._own.add(name)
        self._taken[self._rule.key(name)] = name
        self._columns.clear()

    def drop(self, names: Iterable[str]) -> None:
        """The table does not get these columns after all."""
        for name in names:
            self._own.discard(name)
            self._taken.pop(self._rule.key(name), None)
            self._fields.pop(name, None)
        self._columns.clear()


def struct_names(rule: NamingRule, fields: Iterable[str]) -> list[str]:
    """The names of the fields of a struct, in their order."""
    found: list[str] = []
    taken: set[str] = set()
    for field in fields:
        salt, name = 0, field
        while not rule.takes(name) or rule.key(name) in taken:
            name = with_digits(field, salt)
            salt += 1
        taken.add(rule.key(name))
        found.append(name)
    return found
