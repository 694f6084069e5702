"""Random JAAS texts are read as Apache Kafka reads them, or refused; what it refuses is never accepted."""

import random
from pathlib import Path

import pytest

import oracle
from kpybroker.machines.sasl.jaas import PLAIN_MODULE, BrokenJaas, parse

PARTS = [
    *("user", "a.b", "a-1", "$_", "-1", "12", "é", "\u0085", "=", "=", "=", ";", ";", " ", " ", "\n", "\t", "/", "//"),
    *("/*", "*/", '"', '"', "'", '"x"', '"a\\"b"', "'it'", '"\\t\\101\\400\\8\\q"', '"\\\\"', "\\", "("),
    *("k=v", 'k="v"', "k = 'v'"),
]  # fmt: skip
TEXTS = 3000
MOST_STRICTER = 0.1


def texts() -> list[str]:
    rng = random.Random(1)
    found = []
    for _ in range(TEXTS):
        parts = rng.choices(PARTS, k=rng.randrange(8))
        ends = rng.choice([";", " ;", "", "; // x", ";\n/* x */"])
        found.append(f"{PLAIN_MODULE} required {' '.join(parts) if rng.random() < 0.5 else ''.join(parts)}{ends}")
    return found


def read(text: str) -> str:
    try:
        entry = parse(text)
    except BrokenJaas:
        return "!"
    options = sorted(entry.options.items(), key=lambda pair: pair[0].encode("utf-16-be"))
    pairs = [f"{key.encode().hex()}={value.encode().hex()}" for key, value in options]
    return " ".join([entry.module.encode().hex(), *pairs])


@pytest.mark.java
def test_texts_are_read_as_by_apache_kafka() -> None:
    given = texts()
    classes = oracle.compile_java(Path(__file__).with_name("JaasTexts.java"))
    lines = "".join(f"{text.encode().hex()}\n" for text in given)
    finished = oracle.java("org.apache.kafka.common.security.JaasTexts", classes=[classes], stdin=lines, heap="128m")
    assert finished.returncode == 0, finished.stderr
    of_kafka = finished.stdout.splitlines()
    ours = [read(text) for text in given]
    assert len(of_kafka) == len(ours)
    other = [(text, kafka) for text, kafka, here in zip(given, of_kafka, ours, strict=True) if here not in ("!", kafka)]
    assert not other
    stricter = [text for text, kafka, here in zip(given, of_kafka, ours, strict=True) if here == "!" != kafka]
    assert len(stricter) < MOST_STRICTER * TEXTS, stricter[:20]
    assert sum(here != "!" for here in ours) > TEXTS / 10
