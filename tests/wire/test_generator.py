"""The generator of declarations, from specifications of our own in Kafka's notation.

`test_specifications` runs it over Kafka's jars.
"""

from pathlib import Path
from zipfile import ZipFile

import pytest

from kpywire.generator.declarations import module_text
from kpywire.generator.error_table import _message_row
from kpywire.generator.names import file_stem
from kpywire.generator.specifications import jar_path, parse, read_package, with_removed
from kpywire.generator.tables import api_text, records_table_text

LICENCE = "// Licensed to nobody.\n// All of it.\n\n"
REQUEST = """
{
  "apiKey": 7,
  "type": "request",
  "listeners": ["controller", "broker"],
  "name": "FindStarRequest",
  // Version 1 adds the colour.
  //
  // Version 2 is the same as version 1. It was removed in Apache Kafka 3.0.
  //
  // Version 3 is the same, but older clients
  // do not send it (KIP-1). It is flexible.
  "validVersions": "0-3",
  "flexibleVersions": "3+",
  "latestVersionUnstable": true,
  "fields": [
    { "name": "Name", "type": "string", "versions": "0+", "about": "The name." },
    { "name": "OtherNames", "type": "[]string", "versions": "1+", "nullableVersions": "2+", "ignorable": true,
      "about": "Other names." },
    // It is hidden
    // for all.
    //
    // - and here
    { "name": "Place", "type": "Place", "versions": "0+", "about": "The place,\\n  far away.", "fields": [
      { "name": "X", "type": "int32", "versions": "0+", "default": "-1" },
      { "name": "Error", "type": "float64", "versions": "1+", "ignorable": true, "about": "The error." },
      { "name": "Far", "type": "bool", "versions": "0+", "default": true },
      { "name": "Most", "type": "int64", "versions": "0+", "default": "0x7fffffffffffffff" },
      { "name": "Common", "type": "[]Common", "versions": "2+" }
    ]},
    { "name": "Id", "type": "uuid", "versions": "3+", "taggedVersions": "3+", "tag": 0 },
    { "name": "Colour", "type": "string", "versions": "1+", "default": "red", "flexibleVersions": "none" },
    { "name": "Again", "type": "[]Place", "versions": "0+", "nullableVersions": "0+", "default": "null" },
    { "name": "Light", "type": "Light", "versions": "3+", "taggedVersions": "3+", "tag": 1, "fields": [
      { "name": "Lumen", "type": "uint16", "versions": "3+" }
    ]},
    { "name": "Long", "type": "bytes", "versions": "0+",
     "about": "A field with a text that fills its line up to the last column that a line of a module may have here,x" },
    { "name": "Long2", "type": "bytes", "versions": "0+",
     "about": "A field with a text that fills its line up to the last column that a line of a module may have here,x" }
  ],
  "commonStructs": [
    { "name": "Common", "versions": "2+", "fields": [
      { "name": "Size", "type": "int8", "versions": "2+" }
    ]}
  ]
}
"""
RESPONSE = """
{
  "apiKey": 7, "type": "response", "name": "FindStarResponse",
  // Versions 0 to 3 are the same.
  "validVersions": "0-3", "flexibleVersions": "3+",
  "fields": [
    { "name": "Place", "type": "[]Place", "versions": "0+", "fields": [
      { "name": "Records", "type": "records", "versions": "0+" }
    ]}
  ]
}
"""
MODULE = '''"""FindStar: API key 7."""

from __future__ import annotations

from kpywire.schema import f64, field, i8, i32, i64, message, record_batches, string, struct, u16, uuid
from kpywire.uuid import ZERO_UUID


@struct
class Common:
    size: i8


@struct
class FindStarRequestPlace:
    x: i32 = field(default=-1)
    error: f64 = field("1+", default=0.0, ignorable=True)  # The error.
    far: bool = field(default=True)
    most: i64 = field(default=0x7FFF_FFFF_FFFF_FFFF)
    common: list[Common] = field("2+", default=[])


@struct
class Light:
    lumen: u16


@message(key=7, versions="0-3", flexible="3+", unstable=3)
class FindStarRequest:
    """Version 1 adds the colour.
    Version 3 is the same, but older clients do not send it (KIP-1). It is flexible.
    """

    name: string  # The name.
    other_names: list[string] | None = field("1+", nullable="2+", default=[], ignorable=True)  # Other names.
    # The place, far away.
    # It is hidden for all.
    # - and here
    place: FindStarRequestPlace
    id: uuid = field("3+", tag=0, default=ZERO_UUID)
    colour: string = field("1+", default="red", flexible="none")
    again: list[FindStarRequestPlace] | None = field(default=None)
    light: Light = field("3+", tag=1, default=Light)
    long: bytes  # A field with a text that fills its line up to the last column that a line of a module may have here,x
    # A field with a text that fills its line up to the last column that a line of a module may have here,x
    long2: bytes


@struct
class FindStarResponsePlace:
    records: record_batches


@message(key=7, versions="0-3", flexible="3+")
class FindStarResponse:
    place: list[FindStarResponsePlace]
'''


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    """A directory of jars, with specifications and what else stands in jars."""
    files = {
        "kafka-clients-9.9.jar": {
            "common/message/FindStarRequest.json": LICENCE + REQUEST,
            "common/message/FindStarResponse.json": RESPONSE,
            "common/message/notes.txt": "",
            "other/Other.json": "no JSON",
        },
        "kafka-clients-extra.jar": {},
        "kafka-raft-9.9.jar": {"common/message/QuorumFile.json": FILE},
        "kafka-storage-9.9.jar": {"message/StarRecord.json": RECORD, "message/QuorumFile.json": FILE},
    }
    for jar, entries in files.items():
        with ZipFile(tmp_path / jar, "w") as zipped:
            for name, text in entries.items():
                zipped.writestr(name, text)
    return tmp_path


FILE = '{"type": "data", "name": "QuorumFile", "validVersions": "0", "fields": []}'
RECORD = """
{ "apiKey": 5, "type": "metadata", "name": "StarRecord", "validVersions": "0", "flexibleVersions": "0+",
  "fields": [ { "name": "KRaftId", "type": "uint32", "versions": "0+" } ] }
"""
KEY = """
{ "apiKey": 3, "type": "coordinator-key", "name": "MoonKey", "validVersions": "0", "flexibleVersions": "none",
  "fields": [ { "name": "group", "type": "string", "versions": "0" } ] }
"""
REMOVED = """
{ "apiKey": 4, "type": "request", "name": "OldRequest", "validVersions": "none", "flexibleVersions": "none",
  "fields": [ { "name": "A", "type": "int8", "versions": "0+" } ] }
"""


def test_a_module_declares_a_request_and_its_response_each_after_its_structs() -> None:
    assert module_text("messages", [parse(LICENCE + REQUEST), parse(RESPONSE)]) == MODULE


@pytest.mark.parametrize(
    ("package", "text", "title", "body"),
    [
        (
            "remote_log_records", RECORD, "StarRecord: type 5 in ``__remote_log_metadata``.",
            '@message(key=5, versions="0", flexible="0+")\nclass StarRecord:\n    kraft_id: u32\n',
        ),
        (
            "metadata_records", RECORD, "StarRecord: type 5 in the metadata log.",
            '@message(key=5, versions="0", flexible="0+")\nclass StarRecord:\n    kraft_id: u32\n',
        ),
        (
            "group_records", KEY, "Moon: a record of type 3, key and value.",
            '@message(key=3, versions="0")\nclass MoonKey:\n    group: string\n',
        ),
        ("messages", FILE, "QuorumFile.", '@message(versions="0")\nclass QuorumFile:\n    pass\n'),
        (
            "messages", REMOVED, "Old: API key 4.",
            '@message(key=4, versions="none")\nclass OldRequest:\n    """Removed in Apache Kafka 4.0."""\n',
        ),
    ],
)  # fmt: skip
def test_each_kind_of_module_has_its_title(package: str, text: str, title: str, body: str) -> None:
    written = module_text(package, [parse(text)])
    assert written.startswith(f'"""{title}"""\n')
    assert written.endswith(body)


def test_specifications_are_read_from_the_jars_that_have_them(jars: Path) -> None:
    assert [each.name for each in read_package(jars, "messages")] == [
        "FindStarRequest", "FindStarResponse", "QuorumFile",
    ]  # fmt: skip
    assert [each.name for each in read_package(jars, "remote_log_records")] == ["StarRecord"]
    assert jar_path(jars, "kafka-clients").name == "kafka-clients-9.9.jar"
    with pytest.raises(FileNotFoundError):
        jar_path(jars, "kafka-metadata")
    (jars / "kafka-raft-9.8.jar").touch()
    with pytest.raises(FileNotFoundError):
        jar_path(jars, "kafka-raft")


def test_messages_without_versions_are_those_of_an_earlier_kafka() -> None:
    now, before = parse(REMOVED), parse(REMOVED.replace("none", "0-1", 1))
    other = parse(RESPONSE)
    assert with_removed([now, other], [before]) == [before, other]
    assert with_removed([other], [parse(RESPONSE.replace("0-3", "0-2"))]) == [other]
    assert with_removed([now], []) == [now]


def test_tables_have_a_row_for_each_request_and_each_type_of_record() -> None:
    table = api_text([parse(text) for text in (REQUEST, RESPONSE, REMOVED)])
    assert "\nFIND_STAR: Final = 7\n" in table
    assert "\nOLD: Final = 4\nFIND_STAR" in table
    rows = [line.strip() for line in table.splitlines() if line.startswith("        (")]
    assert rows == ['(7, "FindStar", 0, 2, 3, "find_star", _BROKER_AND_CONTROLLER),']
    old = REMOVED.replace('"none"', '"1-3"', 1).replace('"apiKey"', '"listeners": ["zkBroker"], "apiKey"')
    assert '        (4, "Old", 1, 3, NEVER_FLEXIBLE, "old", _ZK_BROKER),\n' in api_text([parse(old)])
    records = records_table_text([parse(RECORD), parse(KEY), parse(FILE)])
    assert records.endswith(
        "MOON: Final = 3\nSTAR_RECORD: Final = 5\n\n"
        'MODULES: dict[int, str] = {\n    MOON: "moon",\n    STAR_RECORD: "star_record",\n}\n'
    )


def test_requests_and_responses_share_a_module_and_headers_do_not() -> None:
    names = ["FetchRequest", "FetchResponse", "RequestHeader", "OffsetCommitKey", "KRaftVersionRecord"]
    assert [file_stem(name) for name in names] == [
        "fetch", "fetch", "request_header", "offset_commit", "kraft_version_record",
    ]  # fmt: skip


def test_long_messages_of_errors_take_several_lines() -> None:
    assert _message_row("NONE", 'A "word" and a \\.') == '    NONE: "A \\"word\\" and a \\\\.",\n'
    name = "N" * 20
    longest = "m" * (120 - len(f'    {name}: "",'))
    assert _message_row(name, longest) == f'    {name}: "{longest}",\n'
    assert _message_row(name, longest + "m").startswith(f"    {name}: (\n")
    words = " ".join(["word"] * 40)
    first, second = words[:109], words[110:]
    assert _message_row(name, words) == f'    {name}: (\n        "{first} "\n        "{second}"\n    ),\n'
