"""Java's login configuration files: the section that counts, and texts that are read as Java reads them."""

import random
from pathlib import Path

import pytest

import oracle
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, BrokenJaas, JaasEntry, parse, text_of
from kpybroker.machines.sasl.jaas_file import LoginFile, parse_file

SERVER = f'KafkaServer {{ {PLAIN_MODULE} required user_alice="a\\"b"; {SCRAM_MODULE} required; }};'
OUTSIDE = f'outside.KafkaServer {{ {SCRAM_MODULE} optional username="${{me}}"; }};'
SECTIONS = ("KafkaServer", "a.KafkaServer", "Client")
PARTS = [
    *('user_a="b"', 'k="v"', "k=v", "k =v-1", 'path="/etc/key"', "a.b=c.d", "x", "=", "{", "}", ";", '"', "'q'", "1"),
    *(PLAIN_MODULE, "required", "OPTIONAL", "Client", "//x\n", "/* y */", "\n", "}; Client {", "; M required", "é=ü"),
    *('e="\\t\\101\\q"', "d=1", "k=/t", "k=''"),
]  # fmt: skip


def test_a_listener_reads_its_own_section_before_that_of_all() -> None:
    file = LoginFile("f", parse_file(f"{SERVER} // all\n{OUTSIDE}", "-Xmx1g -Dme=it"))
    plain = JaasEntry(PLAIN_MODULE, {"user_alice": 'a"b'})
    assert file.of_listener("INSIDE") == ("KafkaServer", (plain, JaasEntry(SCRAM_MODULE, {})))
    assert file.of_listener("OUTSIDE") == ("outside.KafkaServer", (JaasEntry(SCRAM_MODULE, {"username": "it"}),))
    assert LoginFile("f", {}).of_listener("A") == ("KafkaServer", ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("KafkaServer", "a '{' is missing"),
        ("KafkaServer {};", "no login module"),
        (SERVER.rstrip(";"), "a ';' is missing"),
        (SERVER * 2, "a section is there twice"),
        (SERVER.replace("required", "must"), "control flag"),
        (OUTSIDE, "the system property 'me'"),
        ("{", "expected the name"),
        (f"A {{ {PLAIN_MODULE} required p='secret", "does not end"),
        (" " * (1 << 20) + "a", "longer than"),
    ],
)
def test_other_texts_are_refused_in_one_line_without_secrets(text: str, words: str) -> None:
    with pytest.raises(BrokenJaas, match=words) as refused:
        parse_file(text)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("value", ["", "word", 'a"b\\c', "\n\r\t\x00\x1f", "é\u2028"])
def test_an_entry_is_written_as_it_is_read(value: str) -> None:
    entry = JaasEntry(PLAIN_MODULE, {"username": "me", "password": value})
    assert parse(text_of(entry)) == entry


def texts() -> list[str]:
    rng = random.Random(2)
    found = []
    for _ in range(1500):
        bodies = [" ".join(rng.choices(PARTS, k=rng.randrange(5))) for _ in range(rng.randrange(1, 4))]
        modules = [f"{rng.choice([PLAIN_MODULE, 'some.Module'])} required {body};" for body in bodies]
        ends = rng.choice(["};", " } ;", "}", ";"]) if rng.random() < 0.2 else "};"
        found.append(f"{rng.choice(SECTIONS)} {{ {' '.join(modules)} {ends}\nOther {{ M required a=b; }};")
    return found


def read(text: str) -> str:
    try:
        sections = parse_file(text)
    except BrokenJaas:
        return "!"
    shown = []
    for name in SECTIONS:
        if name in sections:
            words = [name]
            for entry in sections[name]:
                words.append(entry.module.encode().hex())
                words += [
                    f"{key.encode().hex()}={value.encode().hex()}" for key, value in sorted(entry.options.items())
                ]
            shown.append(" ".join(words) + ";")
    return "".join(shown)


@pytest.mark.java
def test_files_are_read_as_by_java() -> None:
    given = texts()
    classes = oracle.compile_java(Path(__file__).with_name("JaasFiles.java"))
    lines = "".join(f"{text.encode().hex()}\n" for text in given)
    finished = oracle.java("JaasFiles", *SECTIONS, classes=[classes], stdin=lines, heap="128m")
    assert finished.returncode == 0, finished.stderr
    of_java = finished.stdout.splitlines()
    ours = [read(text) for text in given]
    assert len(of_java) == len(ours)
    pairs = list(zip(given, of_java, ours, strict=True))
    other = [(text, java, here) for text, java, here in pairs if java != "!" and here not in ("!", java)]
    assert not other, other[:5]
    stricter = [text for text, java, here in pairs if here == "!" != java]
    assert not stricter, stricter[:5]
    assert sum(here != "!" for here in ours) > len(given) / 10
