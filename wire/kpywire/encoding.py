"""Writes the source of an encoder: one flat function for one message class at one version.

Adjacent fields of fixed size, and the length that follows them, are written by one `struct.Struct` into ``out``. A
buffer of records is not copied: the bytes written before it become one part, the buffer the next.

Invariant: a value that the version cannot carry raises, unless Kafka declares it ignorable.
"""

from struct import Struct, pack
from struct import error as StructError  # noqa: N812
from typing import Any

from kpywire.errors import TooLong, UnsupportedVersion
from kpywire.reading import MAX_STRING_BYTES
from kpywire.schema import Field, Shape, fields_of, holds_records, shared_default
from kpywire.sizes import FORMATS, MOST_PARTS, PART_BYTES, SHORT_ARRAY_LENGTH, short_arrays
from kpywire.source import MOST_NUMBERS, STEP_NUMBERS, STEP_STRUCTS, Source, compile_function
from kpywire.varint import encode_unsigned_varint


def long_string(length: int) -> bytes:
    """The compact length of a string that takes several bytes. ValueError beyond what Kafka allows."""
    if length > MAX_STRING_BYTES + 1:
        raise ValueError(f"a string of {length - 1} bytes is too long to be serialized")
    return encode_unsigned_varint(length)


class EncodedStructs(list[Any]):
    """Takes the place of a list of structs: the bytes of each at the version in question (`codec.encode_struct`).

    It is for answers put together from parts that seldom change, such as the topics of a large cluster's metadata. A
    struct with records may also be a list, as encoders make it: the bytes before its records, the records, the bytes
    behind.
    """

    __slots__ = ()


class EncoderSource(Source):
    """The source of one encoder. ``run``: values of fixed size that wait to be written together, format and value."""

    def __init__(self, cls: type, version: int, *, flexible: bool, in_steps: bool = False) -> None:
        super().__init__()
        self.in_steps = in_steps
        self.cls, self.version, self.flexible = cls, version, flexible
        self.title = f"{cls.__name__} v{version}"
        self.run: list[tuple[str, str]] = []
        self.depth = 0
        self.out = "out"
        self.names: dict[str, Any] = {
            "TooLong": TooLong, "UnsupportedVersion": UnsupportedVersion, "StructError": StructError, "pack": pack,
            "varint": encode_unsigned_varint, "long_string": long_string, "EncodedStructs": EncodedStructs,
        }  # fmt: skip

    def compile(self) -> Any:
        """The encoder: ``(message, parts) -> None``, which appends to ``parts``; in steps it is a generator."""
        self.add("def encode(message, parts):")
        self.indentation = 1
        self.add("out = bytearray()")
        if self.in_steps:
            self.add("steps = 0")
        self.add("try:")
        self.indentation = 2
        self.structure(self.cls, "message")
        self.flush()
        self.add("pass")
        self.indentation = 1
        self.add("except StructError as cause:")
        self.add(f"    raise ValueError(f'{self.title}: {{cause}}') from cause")
        self.add("parts.append(out)")
        if self.in_steps:
            self.add("yield")
        return compile_function(f"encode {self.title}", self.text(), self.names)

    def count(self, elements: str) -> None:
        super().count(elements)
        self.split()

    def split(self) -> None:
        """Begin another part when one is large: to grow a large buffer may take long."""
        if self.out == "out":
            self.add(f"    if len(out) > {PART_BYTES}:")
            self.add("        parts.append(out)")
            self.add("        out = bytearray()")
            self.add(f"        if len(parts) > {MOST_PARTS}:")
            self.add(f"            raise TooLong({f'{self.title} is too long'!r})")

    def packed(self, run: list[tuple[str, str]]) -> str:
        """An expression: the bytes of these values."""
        layout = "".join(code for code, _ in run)
        if all(code == "B" and value.isdigit() for code, value in run):
            return repr(bytes(int(value) for _, value in run))
        name = f"write_{layout}".replace("?", "t")
        self.names.setdefault(name, Struct(">" + layout).pack)
        return f"{name}({', '.join(value for _, value in run)})"

    def flush(self) -> None:
        """Write the values that wait."""
        if self.run:
            self.add(f"{self.out} += {self.packed(self.run)}")
            self.run.clear()

    def structure(self, cls: type, source: str) -> None:
        tagged = []
        for each in fields_of(cls):
            value = f"{source}.{each.name}"
            if self.version not in each.versions:
                if not each.ignorable:
                    self.add(f"if {self.differs(each, value)}:")
                    self.add(f"    raise UnsupportedVersion({f'{self.title} has no {each.name}'!r})")
            elif each.tag is None:
                self.field(each, value)
            else:
                tagged.append(each)
        if self.flexible:
            self.tagged_section(sorted(tagged, key=lambda each: each.tag or 0), source)

    def differs(self, each: Field, value: str) -> str:
        """A condition: the value is not its default."""
        default = each.default
        if default is None:
            return f"{value} is not None"
        if isinstance(default, type):
            name = f"default_{each.name}_{default.__name__}"
            self.names[name] = shared_default(default) or default()
            return f"{value} is not {name} and {value} != {name}"
        if isinstance(default, list):
            return f"{value} is None or len({value})" if each.nullable else f"len({value})"
        return f"{value} != {default!r}"

    def tagged_section(self, tagged: list[Field], source: str) -> None:
        if not tagged:
            self.run.append(("B", "0"))
            return
        conditions = [self.differs(each, f"{source}.{each.name}") for each in tagged]
        self.depth += 1
        flags = [f"has_{each.name}_{self.depth}" for each in tagged]
        waiting, self.run = self.run, []
        self.add(f"if {' or '.join(conditions)}:")
        self.indentation += 1
        for flag, condition in zip(flags, conditions, strict=True):
            self.add(f"{flag} = bool({condition})")
        self.add(f"{self.out} += {self.packed([*waiting, ('B', ' + '.join(flags))])}")
        for each, flag in zip(tagged, flags, strict=True):
            self.add(f"if {flag}:")
            self.indentation += 1
            self.tagged_field(each, f"{source}.{each.name}")
            self.indentation -= 1
        self.indentation -= 1
        self.add("else:")
        self.add(f"    {self.out} += {self.packed([*waiting, ('B', '0')])}")
        self.depth -= 1

    def tagged_field(self, each: Field, value: str) -> None:
        assert each.tag is not None
        outer, self.out = self.out, f"tagged_{self.depth}"
        self.add(f"{self.out} = bytearray()")
        self.field(each, value)
        self.flush()
        self.add(f"{outer} += varint({each.tag}) + varint(len({self.out})) + {self.out}")
        self.out = outer

    def field(self, each: Field, value: str) -> None:
        flexible = self.flexible and not each.never_flexible
        nullable = self.version in each.nullable
        if each.shape.kind == "struct":
            self.nested(each.shape, each.name, value, nullable=nullable, tagged=each.tag is not None)
        else:
            self.value(each.shape, each.name, value, flexible=flexible, nullable=nullable)

    def value(self, shape: Shape, name: str, value: str, *, flexible: bool, nullable: bool) -> None:
        if shape.kind in FORMATS:
            self.run.append((FORMATS[shape.kind], value))
        elif shape.kind == "struct":
            self.nested(shape, name, value, nullable=nullable, tagged=False)
        elif shape.kind == "array":
            self.array(shape, name, value, flexible=flexible, nullable=nullable)
        else:
            self.sized(shape.kind, value, flexible=flexible, nullable=nullable)

    def counted(self, variable: str, value: str, *, flexible: bool, nullable: bool) -> None:
        """Set ``variable`` to the value, empty for null, and ``n`` to the number that goes on the wire."""
        number = f"len({variable}) + 1" if flexible else f"len({variable})"
        self.add(f"{variable} = {value}")
        if not nullable:
            self.add(f"n = {number}")
            return
        self.add(f"if {variable} is None:")
        self.add(f"    n, {variable} = {0 if flexible else -1}, b''")
        self.add("else:")
        self.add(f"    n = {number}")

    def number(self, kind: str, *, flexible: bool) -> None:
        """Write the waiting values, followed by ``n``, a length or count."""
        if not flexible:
            self.run.append(("h" if kind == "string" else "i", "n"))
            self.flush()
            return
        self.add("if n < 0x80:")
        self.add(f"    {self.out} += {self.packed([*self.run, ('B', 'n')])}")
        if kind in ("bytes", "record_batches"):
            low, middle = ("B", "n & 0x7F | 0x80"), ("B", "n >> 7 & 0x7F | 0x80")
            self.add("elif n < 0x4000:")
            self.add(f"    {self.out} += {self.packed([*self.run, low, ('B', 'n >> 7')])}")
            self.add("elif n < 0x200000:")
            self.add(f"    {self.out} += {self.packed([*self.run, low, middle, ('B', 'n >> 14')])}")
        self.add("else:")
        long = "long_string" if kind == "string" else "varint"
        waiting = f"{self.packed(self.run)} + " if self.run else ""
        self.add(f"    {self.out} += {waiting}{long}(n)")
        self.run.clear()

    def sized(self, kind: str, value: str, *, flexible: bool, nullable: bool) -> None:
        if kind == "string":
            encoded = f"{value}.encode()"
            value = f"None if {value} is None else {encoded}" if nullable else encoded
        self.counted("part", value, flexible=flexible, nullable=nullable)
        self.number(kind, flexible=flexible)
        if kind != "record_batches":
            self.add(f"{self.out} += part")
            return
        assert self.out == "out", "records are never tagged"
        self.add("if len(part):")
        self.add("    parts.append(out)")
        self.add("    parts.append(part)")
        self.add("    out = bytearray()")

    def array(self, shape: Shape, name: str, value: str, *, flexible: bool, nullable: bool) -> None:
        assert shape.element is not None
        self.depth += 1
        items, item = f"{name}_{self.depth}", f"each_{self.depth}"
        self.counted(items, value, flexible=flexible, nullable=nullable)
        self.number("array", flexible=flexible)
        layout = FORMATS.get(shape.element.kind)
        if shape.element.struct is not None:
            self.add(f"if type({items}) is EncodedStructs:")
            self.encoded(shape.element.struct, items, item)
            self.add("else:")
            self.indentation += 1
            self.elements(shape.element, name, items, item, flexible=flexible)
            self.indentation -= 1
        elif layout is None or layout == "16s":
            self.elements(shape.element, name, items, item, flexible=flexible)
        else:
            self.numbers(layout, items)
        self.depth -= 1

    def numbers(self, layout: str, items: str) -> None:
        """Write numbers of this format."""
        self.names[f"write_many_{layout}"] = [array.pack for array in short_arrays(layout)]
        self.add(f"n = len({items})")
        self.add(f"if n < {SHORT_ARRAY_LENGTH}:")
        self.add(f"    {self.out} += write_many_{layout}[n](*{items})")
        self.add("else:")
        self.indentation += 1
        if self.in_steps:
            self.add(f"for start in range(0, n, {MOST_NUMBERS}):")
            self.add(f"    some = {items}[start : start + {MOST_NUMBERS}]")
            self.add(f"    {self.out} += pack(f'>{{len(some)}}{layout}', *some)")
            self.add(f"    if len(some) == {MOST_NUMBERS}: yield")
            self.count(f"n % {MOST_NUMBERS} // {STEP_NUMBERS}")
        else:
            self.add(f"{self.out} += pack(f'>{{n}}{layout}', *{items})")
        self.indentation -= 1

    def encoded(self, struct: type, items: str, item: str) -> None:
        """Write structs that are already encoded."""
        self.indentation += 1
        if self.out == "out" and holds_records(struct):
            self.add(f"for {item} in {items}:")
            self.add(f"    if type({item}) is bytes:")
            self.add(f"        out += {item}")
            self.add("    else:")
            self.add(f"        out += {item}[0]")
            self.add("        parts.append(out)")
            self.add(f"        parts.append({item}[1])")
            self.add(f"        out = bytearray({item}[2])")
        elif self.in_steps:
            self.add(f"for start in range(0, len({items}), {STEP_STRUCTS}):")
            self.add(f"    {self.out} += b''.join({items}[start : start + {STEP_STRUCTS}])")
            self.add("    yield")
            self.split()
        else:
            self.add(f"{self.out} += b''.join({items})")
        self.indentation -= 1

    def elements(self, element: Shape, name: str, items: str, item: str, *, flexible: bool) -> None:
        self.add(f"for {item} in {items}:")
        self.indentation += 1
        if self.in_steps:
            self.count("1")
        self.value(element, name, item, flexible=flexible, nullable=False)
        self.flush()
        self.indentation -= 1

    def nested(self, shape: Shape, name: str, value: str, *, nullable: bool, tagged: bool) -> None:
        """Write a struct in a struct. Null is -1 and the rest follows a 1, except that null is 0 in a tagged field."""
        assert shape.struct is not None
        self.depth += 1
        part = value
        if "." in value:
            part = f"{name}_{self.depth}"
            self.add(f"{part} = {value}")
        if nullable:
            self.flush()
            self.add(f"if {part} is None:")
            self.add(f"    {self.out} += {bytes(1) if tagged else bytes((0xFF,))!r}")
            self.add("else:")
            self.indentation += 1
            self.run.append(("B", "1"))
        self.structure(shape.struct, part)
        if nullable:
            self.flush()
            self.indentation -= 1
        self.depth -= 1


def compile_encoder(cls: type, version: int, *, flexible: bool, in_steps: bool = False) -> Any:
    """An encoder of a message or a struct at ``version``, freshly compiled; ``in_steps``: a generator."""
    return EncoderSource(cls, version, flexible=flexible, in_steps=in_steps).compile()
