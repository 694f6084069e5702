"""server.properties is read as Java reads it."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.properties import doubts, parse_properties, read_properties, written_properties
from kpybroker.machines.config_def import ConfigError
from oracle.configs import ask


def values(text: str) -> dict[str, str]:
    return {key: entry.value for key, entry in parse_properties(text).items()}


def named(pairs: dict[str, str]) -> dict[str, str]:
    """Without the pair of an empty key: Java makes one of some lone backslashes at the end of a file."""
    return {key: value for key, value in pairs.items() if key}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a = b  ", {"a": "b  "}),
        ("a:b\nc d\n", {"a": "b", "c": "d"}),
        ("  # comment \\\n! another\na=1", {"a": "1"}),
        ("log.dirs=/a,\\\n     /b\n", {"log.dirs": "/a,/b"}),
        ("a=b\\\n# no comment", {"a": "b# no comment"}),
        ("a\\=b\\ c=d", {"a=b c": "d"}),
        ("path=C\\:\\\\data", {"path": "C:\\data"}),
        ("a=\\u00e9\\t|\\n", {"a": "é\t|\n"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a\n=b\n", {"a": "", "": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("listeners=PLAINTEXT://:9092\r\nnode.id=1\r", {"listeners": "PLAINTEXT://:9092", "node.id": "1"}),
        ("a==b", {"a": "=b"}),
        ("", {}),
    ],
)
def test_pairs_are_read(text, expected):
    assert values(text) == expected


def test_a_second_sign_belongs_to_the_value_as_in_java_and_is_doubted():
    found = parse_properties("a==b\nc=\\=d\ne = = f\ng=h=i\nj:=k\n")
    assert {key: each.value for key, each in found.items()} == {"a": "=b", "c": "=d", "e": "= f", "g": "h=i", "j": "=k"}
    assert [line.partition(";")[0] for line in doubts(found, "server.properties")] == [
        f"server.properties:{line}: the value of {key} begins with '=', since the line has '=='"
        for line, key in ((1, "a"), (3, "e"), (5, "j"))
    ]


def test_a_doubtful_line_is_a_warning_of_the_node(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("process.roles=broker,controller\nnode.id=1\nbroker.rack==r1\nlog.dirs=/d\n")
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
    }
    config = BrokerConfig.load(path, listeners)
    assert config["broker.rack"] == "=r1"
    assert [line for line in config.warnings if line.startswith(f"{path}:3: the value of broker.rack begins with")]


def test_lines_are_counted_from_where_a_pair_begins():
    assert [entry.line for entry in parse_properties("\n# c\na=\\\n 1\n\nb=2").values()] == [3, 6]


def test_a_broken_escape_is_one_line_with_file_and_line(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text("a=1\nb=\\u12\n")
    with pytest.raises(ConfigError) as refusal:
        read_properties(path)
    assert refusal.value.message == f"{path}:2: malformed \\uxxxx escape"


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties: No such file or directory$"):
        read_properties(tmp_path / "nowhere.properties")


def test_a_directory_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"Is a directory$"):
        read_properties(tmp_path)


@pytest.mark.parametrize(("content", "value"), [("é".encode(), "é"), (b"\xe9", "é"), (b"\xef\xbb\xbf", "")])
def test_files_are_utf8_or_latin1(tmp_path, content, value):
    path = Path(tmp_path / "p")
    path.write_bytes(b"a=" + content if value else content + b"a=")
    assert {key: entry.value for key, entry in read_properties(path).items()} == {"a": value}


@pytest.mark.java
def test_random_texts_are_read_as_by_java():
    rng = random.Random(20)
    alphabet = "aabbn u0041=: \\\\\\\n\n\r\t\f#!é"
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(40))) for _ in range(3000)]
    answers = ask({"do": "properties", "text": text} for text in texts)
    for text, expected in zip(texts, answers, strict=True):
        if "error" in expected:
            with pytest.raises(ConfigError):
                parse_properties(text)
        else:
            assert named(values(text)) == named(expected), repr(text)


@given(st.dictionaries(st.from_regex(r"\A[a-z][a-z.-]{0,20}\Z"), st.text(st.characters(exclude_categories=["Cs"]))))
def test_written_properties_are_read_back(pairs):
    assert named(values(written_properties(pairs))) == named(pairs)
