"""Writes the source of a decoder: one flat function for one message class at one version.

Adjacent fields of fixed size, and the length that follows them, are read by one `struct.Struct`. Reads beyond the end
raise by themselves, except slices, which come out short: so no slice is checked, and the position is checked once at
the end. Counts are checked before any element is made: against the bytes that remain, and against a budget.

Invariant: decoding makes no element that the bytes at hand could not hold, and of all elements together no more than
`MAX_OBJECT_BYTES` (`kpywire.sizes`).
"""

from struct import Struct, calcsize, unpack_from
from struct import error as StructError  # noqa: N812
from typing import Any

from kpywire.errors import Malformed, ManyElements
from kpywire.reading import long_number, long_string_length, skip_in_steps, skip_tagged_fields
from kpywire.schema import Field, Shape, fields_of, holds_records, shared_default
from kpywire.sizes import (
    FEW_OBJECT_BYTES,
    FORMATS,
    MAX_OBJECT_BYTES,
    MOST_FIELD_BYTES,
    MOST_TAGGED_FIELDS,
    SHORT_ARRAY_LENGTH,
    TAGGED_FIELD_BYTES,
    element_price,
    least_bytes,
    short_arrays,
)
from kpywire.source import MOST_NUMBERS, STEP_NUMBERS, Source, compile_function
from kpywire.varint import decode_unsigned_varint


class DecoderSource(Source):
    """The source of one decoder. ``run``: fields of fixed size that wait to be read together, format and target."""

    def __init__(
        self, cls: Any, version: int, *, in_steps: bool = False, only_few: bool = False, most_bytes: int | None = None
    ) -> None:
        super().__init__()
        self.in_steps, self.only_few = in_steps, only_few
        self.most_bytes = most_bytes or (FEW_OBJECT_BYTES if only_few else MAX_OBJECT_BYTES)
        self.cls, self.version, self.flexible = cls, version, version in cls.FLEXIBLE
        self.title = f"{cls.__name__} v{version}"
        self.run: list[tuple[str, str]] = []
        self.depth = 0
        self.names: dict[str, Any] = {
            "Malformed": Malformed, "ManyElements": ManyElements, "StructError": StructError,
            "unpack_from": unpack_from, "new": object.__new__, "varint": decode_unsigned_varint,
            "long_number": long_number, "long_string_length": long_string_length,
            "skip": skip_in_steps if in_steps else skip_tagged_fields,
        }  # fmt: skip

    def compile(self) -> Any:
        """The decoder: ``(buffer, position) -> (message, position after it)``; in steps it is a generator."""
        self.add("def decode(buffer, pos):")
        self.indentation = 1
        self.add("limit = len(buffer)")
        if holds_records(self.cls):
            self.add("view = buffer if type(buffer) is memoryview else memoryview(buffer)")
        self.add(f"budget = {self.most_bytes:#x}")
        if self.in_steps:
            self.add("steps = 0")
        self.add("try:")
        self.indentation = 2
        self.structure(self.cls, "message")
        self.flush()
        self.indentation = 1
        self.add("except (StructError, IndexError):")
        self.add(f"    raise Malformed({self.title + ' is cut off'!r}) from None")
        self.add("if pos > limit:")
        self.add(f"    raise Malformed({self.title + ' is cut off'!r})")
        if self.in_steps:
            self.add("yield")
        self.add("return message, pos")
        return compile_function(f"decode {self.title}", self.text(), self.names)

    def flush(self) -> None:
        """Read the fields that wait."""
        if not self.run:
            return
        layout = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run.clear()
        if layout == "B":
            self.add(f"{targets} = buffer[pos]")
            self.add("pos += 1")
            return
        name = f"read_{layout}".replace("?", "t")
        reader = self.names.setdefault(name, Struct(">" + layout).unpack_from)
        del reader
        self.add(f"{targets if ', ' in targets else f'({targets},)'} = {name}(buffer, pos)")
        self.add(f"pos += {calcsize('>' + layout)}")

    def fail(self, condition: str, reason: str) -> None:
        self.add(f"if {condition}:")
        self.add(f"    raise Malformed({f'{self.title}: {reason}'!r})")

    def affordable(self, condition: str, reason: str) -> None:
        """Fail on a condition, or if the budget is spent. If only few elements are decoded, that is no mistake."""
        if self.only_few:
            self.fail(condition, reason)
            self.add("if budget < 0:")
            self.add("    raise ManyElements")
        else:
            self.fail(f"{condition} or budget < 0", reason)

    def name_of(self, cls: type) -> str:
        self.names[cls.__name__] = cls
        return cls.__name__

    def structure(self, cls: type, target: str) -> None:
        """Make an instance and read its fields."""
        self.add(f"{target} = new({self.name_of(cls)})")
        for each in fields_of(cls):
            if each.tag is None and self.version in each.versions:
                self.field(each, f"{target}.{each.name}")
            else:
                self.add(f"{target}.{each.name} = {self.default(each)}")
        if self.flexible:
            self.run.append(("B", "tags"))
            self.flush()
            self.tagged_section([each for each in fields_of(cls) if each.tag is not None], target)

    def default(self, each: Field) -> str:
        value = each.default
        if isinstance(value, list):
            return "[]"
        if isinstance(value, type):
            if shared_default(value) is None:
                return f"{self.name_of(value)}()"
            name = f"default_{value.__name__}"
            self.names[name] = shared_default(value)
            return name
        return repr(value)

    def tagged_section(self, tagged: list[Field], target: str) -> None:
        self.add("if tags:")
        self.indentation += 1
        self.add("if tags > 0x7F:")
        self.add("    tags, pos = long_number(buffer, pos, tags)")
        self.add(f"budget -= tags * {TAGGED_FIELD_BYTES}")
        too_many = "" if self.in_steps else f"tags > {MOST_TAGGED_FIELDS} or "
        self.affordable(f"{too_many}tags * 2 > limit - pos", "more tagged fields than its bytes hold")
        if not tagged:
            self.add(f"pos = {'yield from ' if self.in_steps else ''}skip(buffer, pos, tags)")
            self.indentation -= 1
            return
        self.depth += 1
        tag, last, end = (f"{word}_{self.depth}" for word in ("tag", "last_tag", "tag_end"))
        self.add(f"{last} = -1")
        self.add("for _ in range(tags):")
        self.indentation += 1
        if self.in_steps:
            self.count("1")
        self.add(f"{tag}, pos = varint(buffer, pos)")
        self.add("size, pos = varint(buffer, pos)")
        self.add(f"{end} = pos + size")
        self.fail(f"{tag} <= {last} or {end} > limit", "tagged fields out of order or too long")
        self.add(f"{last} = {tag}")
        word = "if"
        for each in tagged:
            self.add(f"{word} {tag} == {each.tag}:")
            word = "elif"
            self.indentation += 1
            if self.version in each.versions:
                self.field(each, f"{target}.{each.name}")
                self.flush()
                self.fail(f"pos != {end}", f"the size of {each.name} lies")
            else:
                self.fail("True", f"{each.name} belongs to later versions")
            self.indentation -= 1
        self.add("else:")
        self.add(f"    pos = {end}")
        self.indentation -= 2
        self.depth -= 1

    def field(self, each: Field, target: str) -> None:
        flexible = self.flexible and not each.never_flexible
        nullable = self.version in each.nullable
        if each.shape.kind == "struct":
            self.nested(each.shape, each.name, target, nullable=nullable, tagged=each.tag is not None)
        else:
            self.value(each.shape, each.name, target, flexible=flexible, nullable=nullable)

    def value(self, shape: Shape, name: str, target: str, *, flexible: bool, nullable: bool) -> None:
        if shape.kind in FORMATS:
            self.run.append((FORMATS[shape.kind], target))
        elif shape.kind == "struct":
            self.nested(shape, name, target, nullable=nullable, tagged=False)
        else:
            self.length(shape, flexible=flexible)
            if nullable or shape.kind != "array":
                self.null(name, target, flexible=flexible, nullable=nullable)
            if shape.kind == "array":
                self.array(shape, name, target, flexible=flexible)
            else:
                self.sized(shape.kind, target, flexible=flexible)
            if nullable:
                self.indentation -= 1

    def length(self, shape: Shape, *, flexible: bool) -> None:
        """Read the length, or the count of elements, into ``n``. The compact form is one more than the value."""
        if not flexible:
            self.run.append(("h" if shape.kind == "string" else "i", "n"))
            self.flush()
            return
        self.run.append(("B", "n"))
        self.flush()
        self.add("if n > 0x7F:")
        self.add(f"    n, pos = {'long_string_length' if shape.kind == 'string' else 'long_number'}(buffer, pos, n)")

    def null(self, name: str, target: str, *, flexible: bool, nullable: bool) -> None:
        is_null = "not n" if flexible else "n < 0"
        if not nullable:
            self.fail(is_null, f"{name} is null")
            return
        self.add(f"if {is_null}:")
        self.add(f"    {target} = None")
        self.add("else:")
        self.indentation += 1

    def sized(self, kind: str, target: str, *, flexible: bool) -> None:
        if kind == "string":  # many are empty: ids of members, metadata of commits
            self.add(f"if n{' == 1' if flexible else ' == 0'}:")
            self.add(f"    {target} = ''")
            self.add("else:")
            self.indentation += 1
        if kind == "bytes" and self.in_steps:
            self.fail(f"n > {MOST_FIELD_BYTES}", "one field of very many bytes")
        self.add(f"end = pos + n{' - 1' if flexible else ''}")
        part = {"string": "str(buffer[pos:end], 'utf-8', 'replace')", "bytes": "bytes(buffer[pos:end])"}
        self.add(f"{target} = {part.get(kind, 'view[pos:end]')}")
        self.add("pos = end")
        if kind == "string":
            self.indentation -= 1

    def array(self, shape: Shape, name: str, target: str, *, flexible: bool) -> None:
        assert shape.element is not None
        if flexible:
            self.add("n -= 1")
        element = shape.element
        least = max(1, least_bytes(element, self.version, flexible=flexible))
        self.add(f"budget -= n * {element_price(element, self.version)}")
        self.affordable(f"n < 0 or n * {least} > limit - pos", f"{name} is null, or has more than its bytes hold")
        if element.kind in FORMATS and element.kind != "uuid":
            layout = FORMATS[element.kind]
            self.numbers(layout, least, target)
            return
        self.depth += 1
        items, item = f"{name}_{self.depth}", f"each_{self.depth}"
        self.add(f"{target} = {items} = []")
        self.add("for _ in range(n):")
        self.indentation += 1
        if self.in_steps:
            self.count("1")
        self.value(element, name, item, flexible=flexible, nullable=False)
        self.flush()
        self.add(f"{items}.append({item})")
        self.indentation -= 1
        self.depth -= 1

    def numbers(self, layout: str, size: int, target: str) -> None:
        """Read ``n`` numbers of this format and size."""
        self.names[f"read_many_{layout}"] = [array.unpack_from for array in short_arrays(layout)]
        self.add(f"if n < {SHORT_ARRAY_LENGTH}:")
        self.add(f"    {target} = list(read_many_{layout}[n](buffer, pos))")
        self.add("else:")
        self.indentation += 1
        if self.in_steps:
            self.add(f"{target} = numbers = []")
            self.add(f"while n > {MOST_NUMBERS}:")
            self.add(f"    numbers += unpack_from('>{MOST_NUMBERS}{layout}', buffer, pos)")
            self.add(f"    pos += {MOST_NUMBERS * size}")
            self.add(f"    n -= {MOST_NUMBERS}")
            self.add("    yield")
            self.add(f"numbers += unpack_from(f'>{{n}}{layout}', buffer, pos)")
            self.count(f"n // {STEP_NUMBERS}")
        else:
            self.add(f"{target} = list(unpack_from(f'>{{n}}{layout}', buffer, pos))")
        self.indentation -= 1
        self.add(f"pos += n * {size}")

    def nested(self, shape: Shape, name: str, target: str, *, nullable: bool, tagged: bool) -> None:
        """Read a struct in a struct. Null is a byte below zero, except that it is 0 in a tagged field."""
        assert shape.struct is not None
        if nullable:
            self.run.append(("B" if tagged else "b", "n"))
            self.flush()
            self.null(name, target, flexible=tagged, nullable=True)
        self.depth += 1
        if "." in target:
            part = f"{name}_{self.depth}"
            self.structure(shape.struct, part)
            self.flush()
            self.add(f"{target} = {part}")
        else:
            self.structure(shape.struct, target)
        self.depth -= 1
        if nullable:
            self.flush()
            self.indentation -= 1


def compile_decoder(
    cls: type, version: int, *, in_steps: bool = False, only_few: bool = False, most_bytes: int | None = None
) -> Any:
    """A decoder of ``cls`` at ``version``, freshly compiled; ``in_steps``: one that yields between elements;
    ``only_few``: one that raises `ManyElements`; ``most_bytes``: the most that the elements may take."""
    return DecoderSource(cls, version, in_steps=in_steps, only_few=only_few, most_bytes=most_bytes).compile()
