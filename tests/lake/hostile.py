"""Records that somebody might send to stop a topic: names, numbers, texts, times and schemas that break libraries."""

import json
from typing import Any

from google.protobuf import descriptor_pb2
from hypothesis import strategies as st

NAMES = (
    "a", "A", "b", "b__str", "B__STR", "a__str__str", "_offset", "_OFFSET", "_Timestamp", "_headers", "_headers.key",
    "_headers.element", "_gone", "_file", "_pos", "_metadata", "_change_type", "__delta_rs_path", "value", "größe",
    "GRÖSSE", "ß", "ẞ", "İ", "i", "I", "ı", "ſ", "s", "K", "k", "µ", "μ", "住所", "naïve-key", "$id", "@type", "a.b",
    "a b", "a_x20b", "a_b__c8687a08", "", " ", "\t", "\n", "\0", "a\0", "=", "{}", '"', "'", "`", "\\", "/", "%", "*",
    "1", "1a", "_1a", "select", "🙂", "e\u0301", "é", "\u202e", "\ufffe", "x" * 300, "é" * 200, "X" * 10_000,
)  # fmt: skip
TEXTS = (
    "", "x", "\0", "a\0b", "\ud7ff", "x" * 15 + "\ud7ff" + "y", "x" * 15 + "\U0010ffff" * 3, "\ufeff", "NaN", "null",
    "1e400", "true", "é" * 40, "{", "x" * 70_000, "2024-01-01", "\u2028",
)  # fmt: skip
NUMBERS = (
    "0", "-0", "-0.0", "1", "1.5", "1e5", "1e400", "-1e400", "1e-400", "9007199254740993", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "9" * 400, "9" * 300 + ".0", "9" * 300 + "e9", "9" * 20_000,
    "1e0000000400", "0.1" + "0" * 400, "5e-324", "NaN", "Infinity", "true", "false", "null", "1E+400", "[1e999]",
    '{"x":1e999}',
)  # fmt: skip
TIMES_US = (
    0, -1_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000, (1 << 63) - 1, -(1 << 63), 253_402_300_799_999_999,
    253_402_300_800_000_000, -62_135_596_800_000_000, -62_135_596_800_000_001, -(1 << 62),
)  # fmt: skip
HEADERS = (("k", b"v"), ("", b""), ("K", None), ("\0", b"\0"), ("\ud7ff" * 20, b"\xff" * 40))
KEYS = (None, b"", b"k", b"K", b"\0", b"\xff" * 40, b"\xff\xfe", "ß".encode())

texts = st.sampled_from(TEXTS) | st.text(max_size=6)
names = st.sampled_from(NAMES) | st.text(min_size=1, max_size=3)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


values = st.recursive(
    st.sampled_from(NUMBERS) | texts.map(lambda text: json.dumps(text, ensure_ascii=False)) | st.just('"\\ud800"'),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda found: f"[{','.join(found)}]")
        | st.dictionaries(names, inner, max_size=2).map(lambda found: document(found).decode("utf-8", "surrogatepass"))
    ),
    max_leaves=3,
) | st.integers(150, 260).map(nested)


def document(fields: dict[str, str]) -> bytes:
    """A JSON object of fields whose values are JSON texts."""
    text = ",".join(f"{json.dumps(name, ensure_ascii=False)}:{value}" for name, value in fields.items())
    return f"{{{text}}}".encode("utf-8", "surrogatepass")


documents = (
    st.dictionaries(names, values, max_size=6).map(document)
    | st.integers(900, 1_100).map(lambda count: document({f"f{n}": "1" for n in range(count)}))
    | st.sampled_from(
        [b"", b"\xff", b"[]", b"null", b"{", b"[" * 100_000, b'{"a":1}{"a":2}', b"\xed\xa0\x80", b"\xef\xbb\xbf{}"]
    )
    | st.binary(max_size=12)
)  # fmt: skip

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    ("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis"),
    ("long", "timestamp-micros"), ("long", "local-timestamp-millis"), ("long", "local-timestamp-micros"),
    ("long", "timestamp-nanos"), ("string", "uuid"), ("string", "date"), ("bytes", "decimal"), ("int", "decimal"),
)  # fmt: skip
DIGITS = ((4, 2), (38, 0), (38, 38), (39, 0), (5, 10), (0, 0), (-1, 0), (10**9, 10**8), (4, -1), ("x", 0))

LETTERS = ("a", "A", "b", "_offset", "_OFFSET", "s", "next", "key")


def _logical(pair: tuple[str, str], digits: tuple[Any, Any]) -> Any:
    precision, scale = digits
    return {"type": pair[0], "logicalType": pair[1], "precision": precision, "scale": scale}


@st.composite
def avro_schemas(draw: st.DrawFn) -> Any:
    """A record, with types of all kinds in it, and perhaps itself."""
    count = [0]

    def named(kind: str, **rest: Any) -> Any:
        count[0] += 1
        return {"type": kind, "name": f"T{count[0]}", **rest}

    def kind(depth: int) -> Any:
        choice = draw(st.integers(0, 9 if depth else 4))
        if choice < 2:
            return draw(st.sampled_from(PRIMITIVES))
        if choice == 2:
            return _logical(draw(st.sampled_from(LOGICAL)), draw(st.sampled_from(DIGITS)))
        if choice == 3:
            logical = draw(st.sampled_from([{}, {"logicalType": "uuid"}, {"logicalType": "decimal", "precision": 9}]))
            return named("fixed", size=draw(st.sampled_from([0, 1, 16])), **logical)
        if choice == 4:
            return draw(st.sampled_from(["Outer", ["null", "Outer"], named("enum", symbols=["A", "B"])]))
        if choice == 5:
            return {"type": "array", "items": kind(depth - 1)}
        if choice == 6:
            return {"type": "map", "values": kind(depth - 1)}
        if choice == 7:
            return ["null", kind(depth - 1)]
        if choice == 8:
            return ["null", "string", "boolean", "bytes", "double", {"type": "map", "values": "double"}]
        return named("record", fields=fields(depth - 1))

    def fields(depth: int) -> list[Any]:
        chosen = draw(st.lists(st.sampled_from(LETTERS), max_size=4, unique=True))
        return [{"name": name, "type": kind(depth)} for name in chosen]

    return {"type": "record", "name": "Outer", "fields": fields(2)}


BYTES = (
    b"\0", b"\x02", b"\x02\x00", b"\x01", b"\xff" * 9 + b"\x01", b"\x02" * 20_000, b"\x08abcd", b"\x20" + b"\xff" * 16,
    b"\0\0\xc0\x7f", b"\0\0\0\0\0\0\xf0\x7f",
)  # fmt: skip
contents = st.lists(st.sampled_from(BYTES) | st.binary(max_size=9), max_size=5).map(b"".join)


def protobuf_files() -> bytes:
    """The descriptors of a message with fields of all kinds, some alike but for case, itself, maps, and times."""
    found = descriptor_pb2.FileDescriptorSet()
    for name in ("timestamp", "struct", "wrappers", "duration", "any"):
        module = __import__(f"google.protobuf.{name}_pb2", fromlist=["DESCRIPTOR"])
        module.DESCRIPTOR.CopyToProto(found.file.add())
    file = found.file.add(name="hostile.proto", package="h", syntax="proto3")
    file.dependency.extend(each.name for each in found.file[:-1])
    outer = file.message_type.add(name="Outer")
    kinds = file.enum_type.add(name="Kind")
    kinds.value.add(name="NONE", number=0)
    kinds.value.add(name="ONE", number=1)

    def add(number: int, name: str, kind: int, of: str = "", *, many: bool = False) -> None:
        made = outer.field.add(name=name, number=number, type=kind, label=3 if many else 1)  # type: ignore[arg-type]
        if of:
            made.type_name = of

    for number, (name, kind) in enumerate(
        [("a", 9), ("A", 3), ("_offset", 5), ("_OFFSET", 12), ("d", 1), ("f", 2), ("u", 4), ("b", 8), ("x__str", 9)], 1
    ):
        add(number, name, kind)
    shipped = ("Timestamp", "Struct", "DoubleValue", "Duration", "Any", "Value")
    for number, name in enumerate(shipped, 10):
        add(number, name.lower(), 11, f".google.protobuf.{name}")
    add(16, "next", 11, ".h.Outer")
    add(17, "nexts", 11, ".h.Outer", many=True)
    add(18, "kind", 14, ".h.Kind")
    maps = [("m", 9, 1, ""), ("n", 8, 12, ""), ("o", 3, 11, ".h.Outer"), ("p", 9, 14, ".h.Kind"), ("q", 9, 3, "")]
    for number, (name, key, value, of) in enumerate([*maps, ("r", 9, 11, ".google.protobuf.Any")], 19):
        entry = outer.nested_type.add(name=f"{name.upper()}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=1)  # type: ignore[arg-type]
        made = entry.field.add(name="value", number=2, type=value, label=1)  # type: ignore[arg-type]
        if of:
            made.type_name = of
        add(number, name, 11, f".h.Outer.{name.upper()}Entry", many=True)
    return found.SerializeToString()


@st.composite
def messages(draw: st.DrawFn, depth: int = 2) -> bytes:
    """Bytes of that message, or nearly so: tags of its fields with varints, numbers and bytes behind them."""
    found = b""
    for number in draw(st.lists(st.integers(1, 25), max_size=4)):
        form = draw(st.sampled_from([0, 1, 2, 2, 2, 5]))
        tag = number << 3 | form
        found += bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])
        if form == 0:
            found += draw(st.sampled_from([b"\0", b"\x01", b"\x7f", b"\xff" * 9 + b"\x01"]))
        elif form == 2:
            inner = draw(messages(depth - 1) if depth else st.binary(max_size=6)) + draw(st.sampled_from([b"", b"x"]))
            inner = inner[:120]
            found += bytes([len(inner)]) + inner
        else:
            found += draw(st.sampled_from([b"\0" * 8, b"\xff" * 8, b"\0\0\0\0\0\0\xf8\x7f"]))[: 8 if form == 1 else 4]
    return found


JSON_SCHEMA = {
    "type": "object",
    "properties": {
        **{name: {"type": "integer"} for name in ("a", "A", "_OFFSET", "größe", "a b", "")},
        "b": {"type": "number"},
        "s": {"type": "string", "pattern": "^(x+x+)+$"},
        "住所": {"type": ["object", "null"]},
        "value": {"oneOf": [{"type": "null"}, {"type": "array", "uniqueItems": True}]},
    },
}
