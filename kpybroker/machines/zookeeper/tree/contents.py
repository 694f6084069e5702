"""The JSON text of znodes: read with checks of types, and written without spaces (Kafka's ``Json``).

Invariant: whatever bytes a znode holds, reading them gives a value or :class:`InvalidZnode`.
"""

import json
from collections.abc import Mapping
from typing import Any, Self, TypeVar

_T = TypeVar("_T")


class InvalidZnode(Exception):
    """A znode holds what Kafka does not write there. The text names the path and the fault."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(f"The znode {path} cannot be understood: {fault}.")
        self.path = path


def encode(fields: Mapping[str, Any]) -> bytes:
    """The JSON object with these fields, in UTF-8."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


class ZnodeFields:
    """The fields of a JSON object in a znode, read by name and type."""

    __slots__ = ("_path", "_values")

    def __init__(self, path: str, values: Mapping[str, Any]) -> None:
        self._path = path
        self._values = values

    @classmethod
    def decode(cls, path: str, content: bytes | None) -> Self:
        """The object in ``content``. ``path`` is for error messages."""
        if not content:
            raise InvalidZnode(path, "it is empty")
        try:
            values = json.loads(content)
        except (ValueError, RecursionError):
            raise InvalidZnode(path, "it is not JSON") from None
        if not isinstance(values, dict):
            raise InvalidZnode(path, "it is not a JSON object")
        return cls(path, values)

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def fault(self, text: str) -> InvalidZnode:
        """The error that this znode is invalid."""
        return InvalidZnode(self._path, text)

    def _read(self, name: str, kind: type[_T], described: str) -> _T:
        value = self._values.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.fault(f"its field {name} is not {described}")
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """A whole number."""
        if default is not None and name not in self:
            return default
        return self._read(name, int, "a whole number")

    def text(self, name: str) -> str:
        """A string."""
        return self._read(name, str, "a string")

    def text_or_none(self, name: str) -> str | None:
        """A string, or None where the field is absent or null."""
        return self.text(name) if name in self else None

    def integer_in_text(self, name: str) -> int:
        """A whole number that Kafka writes as a string, such as a timestamp."""
        value = self._values.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        text = self.text(name)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
            raise self.fault(f"its field {name} is not a whole number")
        return int(text)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers."""
        return self._all_integers(name, self._read(name, list, "a list"))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self._read(name, list, "a list")
        if not all(isinstance(each, str) for each in values):
            raise self.fault(f"its field {name} is not a list of strings")
        return tuple(values)

    def objects(self, name: str) -> list["ZnodeFields"]:
        """A list of objects."""
        values = self._read(name, list, "a list")
        if not all(isinstance(each, dict) for each in values):
            raise self.fault(f"its field {name} is not a list of objects")
        return [ZnodeFields(self._path, each) for each in values]

    def text_map(self, name: str) -> dict[str, str]:
        """An object whose values are strings. Numbers count as strings, as with Kafka."""
        values = self._read(name, dict, "an object")
        if not all(isinstance(each, str | int) for each in values.values()):
            raise self.fault(f"its field {name} is not an object of strings")
        return {key: each if isinstance(each, str) else json.dumps(each) for key, each in values.items()}

    def feature_ranges(self, name: str) -> dict[str, dict[str, int]]:
        """The levels of features, by feature and by name of the bound. Absent is empty."""
        if name not in self:
            return {}
        ranges = self._read(name, dict, "an object")
        for levels in ranges.values():
            if not isinstance(levels, dict):
                raise self.fault(f"its field {name} is not an object of levels by feature")
            self._all_integers(name, list(levels.values()))
        return ranges

    def partition_lists(self, name: str, *, required: bool = True) -> dict[int, tuple[int, ...]]:
        """An object of lists of broker ids by partition, which is a number in a string; in the order of partitions."""
        if not required and name not in self:
            return {}
        lists: dict[int, tuple[int, ...]] = {}
        for key, values in self._read(name, dict, "an object").items():
            if not (key.isascii() and key.isdecimal() and len(key) < 10) or not isinstance(values, list):
                raise self.fault(f"its field {name} is not an object of lists by partition")
            lists[int(key)] = self._all_integers(name, values)
        return dict(sorted(lists.items()))

    def _all_integers(self, name: str, values: list[Any]) -> tuple[int, ...]:
        if not all(isinstance(each, int) and not isinstance(each, bool) for each in values):
            raise self.fault(f"its field {name} has an element that is not a whole number")
        return tuple(values)
