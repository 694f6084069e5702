"""Apache Kafka's verdict on record batches: its own append path and codecs, many questions in one JVM."""

from base64 import b64decode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from oracle.jars import compile_java, java


class Verdict(NamedTuple):
    """The verdict of Kafka on a produced batch: it stored ``batch``, or refused with ``error_code``."""

    base_offset: int = -1
    log_append_time_ms: int = -1
    batch: bytes = b""
    error_code: int = 0
    exception: str = ""
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


def topic(**configs: object) -> str:
    """The question for a new log with these topic configs (underscores for dots)."""
    return "topic " + ",".join(f"{name.replace('_', '.')}={value}" for name, value in configs.items())


def append(batch: bytes, now_ms: int, *, version: int = 13, leader_epoch: int = 0) -> str:
    """The question what becomes of a batch that a client produces."""
    return f"append {version} {now_ms} {leader_epoch} {batch.hex()}"


def read(records: bytes) -> str:
    """The question what a consumer makes of batches."""
    return f"read {records.hex()}"


def build(
    records: Iterable[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    append_time_ms: int = -1,
) -> str:
    """The question for the batch of some records: (timestamp, key, value, headers) each."""
    words = [f"build {base_offset} {leader_epoch} {producer_id} {producer_epoch} {sequence}"]
    words.append(f"{str(transactional).lower()} {append_time_ms}")
    for timestamp, key, value, headers in records:
        fields = [str(timestamp), _hex(key), _hex(value)]
        for name, header_value in headers:
            fields += (name.encode().hex(), _hex(header_value))
        words.append(",".join(fields))
    return " ".join(words)


CONTROL = "control"
"""The question for one control batch of each type."""


def inflate(codec: str, data: bytes) -> str:
    return f"inflate {codec} {data.hex()}"


def deflate(codec: str, level: int, data: bytes) -> str:
    return f"deflate {codec} {level} {data.hex()}"


def ask(questions: Sequence[str]) -> list[str]:
    """Kafka's answers, one per question."""
    classes = compile_java(Path(__file__).with_name("BatchOracle.java"))
    finished = java("BatchOracle", classes=[classes], stdin="\n".join(questions) + "\n", heap="512m", timeout_s=240)
    answers = finished.stdout.splitlines()
    if finished.returncode != 0 or len(answers) != len(questions):
        raise RuntimeError(f"{len(answers)} answers to {len(questions)} questions\n{finished.stderr}")
    return answers


def verdict(answer: str) -> Verdict:
    """The answer to :func:`append`."""
    kind, *words = answer.split(" ")
    if kind == "ok":
        return Verdict(int(words[0]), int(words[1]), bytes.fromhex(words[2]))
    code, exception, message, *errors = words
    texts = [_text(word) or "" for word in errors[1::2]]
    return Verdict(
        error_code=int(code),
        exception=exception,
        message=_text(message),
        record_errors=tuple(zip(map(int, errors[::2]), texts, strict=True)),
    )


class Seen(NamedTuple):
    """A record as Kafka's consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def seen(answer: str) -> list[Seen] | None:
    """The answer to :func:`read`; None if a consumer could not read the batches."""
    kind, *words = answer.split(" ")
    if kind != "ok":
        return None
    records = []
    for word in words:
        offset, timestamp, key, value, *headers = word.split(",")
        names = [bytes.fromhex(name).decode() for name in headers[::2]]
        pairs = tuple(zip(names, map(_bytes, headers[1::2]), strict=True))
        records.append(Seen(int(offset), int(timestamp), _bytes(key), _bytes(value), pairs))
    return records


def data(answer: str) -> bytes | None:
    """The answer to :func:`build`, :func:`inflate` or :func:`deflate`; None if Kafka could not."""
    kind, *words = answer.split(" ")
    return bytes.fromhex(words[0] if words else "") if kind == "ok" else None


def _hex(data: bytes | None) -> str:
    return "-" if data is None else data.hex()


def _bytes(word: str) -> bytes | None:
    return None if word == "-" else bytes.fromhex(word)


def _text(word: str) -> str | None:
    return None if word == "-" else b64decode(word).decode()
