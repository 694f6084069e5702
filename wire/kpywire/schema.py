"""The declaration of messages: `message`, `struct`, `field` and the names of Kafka's types.

A declaration is a class whose annotations are the fields, in the order of the wire. The decorators turn it into a
plain ``__slots__`` class with a keyword constructor, ``==`` and ``repr``; nothing about bytes happens here
(`kpywire.codec`), and nothing is analysed or compiled before it is used, so that importing declarations stays cheap.

Invariant: `fields_of` returns everything that the codecs know about a class.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, dataclass_transform

from kpywire.source import compile_function
from kpywire.uuid import ZERO_UUID

i8: TypeAlias = int
i16: TypeAlias = int
u16: TypeAlias = int
i32: TypeAlias = int
u32: TypeAlias = int
i64: TypeAlias = int
f64: TypeAlias = float
string: TypeAlias = str
uuid: TypeAlias = bytes  # always 16 bytes
record_batches: TypeAlias = (
    Any  # Kafka's "records". Decoded: a memoryview of the request. To encode: any object with len()
)

T = TypeVar("T")

_ZEROS: dict[str, object] = {
    **dict.fromkeys(("i8", "i16", "u16", "i32", "u32", "i64"), 0),
    "f64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
    "record_batches": None,
}
_FEW = 16
"""The number of instances of a class that are filled field by field. A start makes a few of many classes, for which
compiling does not pay."""
_NO_VERSION = range(0)
SECRETS = frozenset(("auth_bytes", "hmac", "salted_password", "server_key", "stored_key"))
"""Fields that neither `repr` nor a dump shows: they let somebody log in, or guess a password."""
_NAMES_OF_SECRETS = ("password", "secret", "jaas.config", "keystore.key")
_ZERO_DEFAULT: Any = object()


class Shape(NamedTuple):
    """The type of a field or of an array's element: ``kind`` is a primitive's name, "array" or "struct"."""

    kind: str
    element: Shape | None = None  # of an array
    struct: type | None = None


class Field(NamedTuple):
    """A field of a class, as declared. Version ranges are half-open."""

    name: str
    shape: Shape
    versions: range
    nullable: range
    tag: int | None
    default: Any  # a value; for arrays an empty list or None; for structs a class or None
    ignorable: bool  # may be left out silently where a version does not have it
    never_flexible: bool  # keeps its classic form in flexible versions

    def fresh_default(self) -> Any:
        """The default value, as an object that the caller may change."""
        if isinstance(self.default, list):
            return []
        return self.default() if isinstance(self.default, type) else self.default


class _Declared(NamedTuple):
    versions: str
    tag: int | None
    nullable: str | None
    default: Any
    ignorable: bool
    flexible: str


_PLAIN = _Declared("0+", None, None, _ZERO_DEFAULT, ignorable=False, flexible="")


def field(
    versions: str = "0+",
    *,
    tag: int | None = None,
    nullable: str | None = None,
    default: Any = _ZERO_DEFAULT,
    ignorable: bool = False,
    flexible: str = "",
) -> Any:
    """Declare the properties of a field other than its type.

    ``versions`` that have it (all of the message's if not given); ``tag`` if it is in the tagged section (KIP-482);
    ``nullable``: the versions in which ``| None`` holds, if not in all; ``default``: its value where a version lacks it
    or it was not set (a struct's default is written as its class); ``ignorable``: set to something else, it is dropped
    silently by versions that lack it, instead of raising `UnsupportedVersion`; ``flexible="none"`` keeps its classic
    form everywhere.
    """
    return _Declared(versions, tag, nullable, default, ignorable, flexible)


def parse_versions(text: str) -> range:
    """Kafka's notation of versions, "3-5", "4+", "2" or "none", as a half-open range."""
    if text in ("none", ""):
        return _NO_VERSION
    first, dash, last = text.partition("-")
    if text.endswith("+"):
        return range(int(text[:-1]), 0x8000)
    return range(int(first), int(last if dash else first) + 1)


_made: Counter[type] = Counter()


class Structure:
    """The common base of declared classes. ``FIELDS`` maps each field to its annotation and declaration."""

    __slots__ = ()
    FIELDS: Mapping[str, tuple[str, _Declared]] = {}

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        _made[cls] += 1
        if _made[cls] <= _FEW:
            _fill(self, cls, values)
        else:
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
            cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or self.FIELDS is not other.FIELDS:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(
            f"{name}={'[hidden]' if is_secret(self, name) and getattr(self, name) else repr(getattr(self, name))}"
            for name in self.FIELDS
        )
        return f"{type(self).__name__}({values})"


def is_secret(structure: Structure, field_name: str) -> bool:
    """Whether neither `repr` nor a dump shows this field: also the value of a config whose name says so."""
    if field_name != "value":
        return field_name in SECRETS
    config = getattr(structure, "name", None)
    return isinstance(config, str) and is_secret_config(config)


def is_secret_config(name: str) -> bool:
    """Whether the value of a config of this name is a secret, whatever program it belongs to."""
    return any(word in name for word in _NAMES_OF_SECRETS)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Declare a part of a message."""
    return _slotted(cls, {})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, versions: str, flexible: str = "none", key: int | None = None, unstable: int | None = None
) -> Callable[[type[T]], type[T]]:
    """Declare a message: its versions, those with compact types and tagged fields (KIP-482), its API key or type.

    ``unstable`` is a latest version that Kafka does not serve unless configured to.
    """
    facts = {
        "KEY": key,
        "VERSIONS": parse_versions(versions),
        "FLEXIBLE": parse_versions(flexible),
        "UNSTABLE": unstable,
    }
    return lambda cls: _slotted(cls, facts)


def _slotted(cls: type[T], facts: dict[str, Any]) -> type[T]:
    namespace = dict(cls.__dict__)
    annotations: dict[str, str] = namespace.get("__annotations__", {})
    declared = {name: (text, namespace.pop(name, _PLAIN)) for name, text in annotations.items()}
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace.update(facts, FIELDS=declared, __slots__=tuple(declared))
    return type(cls.__name__, (Structure,), namespace)


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """The fields of a declared class, in the order of the wire."""
    names = vars(sys.modules[cls.__module__])
    declared: Mapping[str, tuple[str, _Declared]] = cls.FIELDS  # type: ignore[attr-defined]
    return tuple(_field(name, text, facts, names) for name, (text, facts) in declared.items())


def _field(name: str, annotation: str, declared: _Declared, names: Mapping[str, Any]) -> Field:
    text = annotation.removesuffix(" | None")
    shape = _shape(text, names)
    versions = parse_versions(declared.versions)
    nullable = _NO_VERSION
    if text != annotation:
        nullable = versions if declared.nullable is None else parse_versions(declared.nullable)
    default = declared.default
    if default is _ZERO_DEFAULT:
        default = [] if shape.kind == "array" else shape.struct or _ZEROS[shape.kind]
    return Field(
        name, shape, versions, nullable, declared.tag, default, declared.ignorable, declared.flexible == "none"
    )


def _shape(text: str, names: Mapping[str, Any]) -> Shape:
    if text.startswith("list["):
        return Shape("array", element=_shape(text[5:-1], names))
    return Shape(text) if text in _ZEROS else Shape("struct", struct=names[text])


def holds_records(cls: type) -> bool:
    """Whether a field of the class, or of a struct in it, is of Kafka's type "records"."""
    shapes = [each.shape.element or each.shape for each in fields_of(cls)]
    return any(shape.kind == "record_batches" or (shape.struct and holds_records(shape.struct)) for shape in shapes)


@cache
def shared_default(cls: type) -> Any:
    """A read-only instance with every default, for fields that were not set; None if it holds a list that could be
    changed."""
    for each in fields_of(cls):
        if isinstance(each.default, list) or (isinstance(each.default, type) and shared_default(each.default) is None):
            return None
    instance = cls()
    read_only = type(cls.__name__, (cls,), {"__slots__": (), "__setattr__": _refuse, "__module__": cls.__module__})
    object.__setattr__(instance, "__class__", read_only)
    return instance


def _fill(instance: Structure, cls: type, values: dict[str, Any]) -> None:
    """Fill an instance field by field, as a compiled constructor does."""
    for each in fields_of(cls):
        setattr(instance, each.name, values.pop(each.name) if each.name in values else _default(each))
    for name in values:
        raise TypeError(f"{cls.__name__}.__init__() got an unexpected keyword argument {name!r}")


def _default(each: Field) -> Any:
    """The value of this field in a new instance: its own list or struct, or an immutable one."""
    shared = shared_default(each.default) if isinstance(each.default, type) else None
    return each.fresh_default() if shared is None else shared


def _refuse(self: Structure, name: str, _value: object) -> None:
    raise AttributeError(f"a default {type(self).__name__} is shared: assign a new one instead of setting its {name}")


_UNSET: Any = object()


def _constructor(cls: type) -> Callable[..., None]:
    parameters, lines, names = [], [], {"_UNSET": _UNSET}
    for each in fields_of(cls):
        value = each.name
        shared = each.default
        if isinstance(each.default, type):
            shared = shared_default(each.default)
        if isinstance(each.default, list) or (isinstance(each.default, type) and shared is None):
            names[f"_new_{each.name}"] = list if isinstance(each.default, list) else each.default
            value = f"_new_{each.name}() if {each.name} is _UNSET else {each.name}"
            shared = _UNSET
        names[f"_default_{each.name}"] = shared
        parameters.append(f"{each.name}=_default_{each.name}")
        lines.append(f"    self.{each.name} = {value}\n")
    signature = f"def __init__(self{', *, ' if parameters else ''}{', '.join(parameters)}):\n"
    body = "".join(lines) or "    pass\n"
    initialise: Callable[..., None] = compile_function(f"{cls.__name__}.__init__", signature + body, names)
    return initialise
