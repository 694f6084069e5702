"""Writers that are killed at random points while a topic grows: table = topic after each of many kills, row by row."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from memory_topic import target_in

from kpybroker.cli import main
from kpybroker.testing import Broker

TOPIC = "killed"
FORMS = [("delta", "append"), ("iceberg", "upsert"), ("delta", "upsert"), ("iceberg", "append")]
RECORDS = 400
READY_S = 60


def kills_of(form: int, kills: int) -> int:
    """The kills of one of the forms, together the wanted number; short runs spare the last forms."""
    return kills // len(FORMS) + (form < kills % len(FORMS)) if kills >= 20 else (3, 2, 0, 0)[form] * kills // 5


def value_of(rng: random.Random) -> bytes | None:
    choice = rng.random()
    if choice < 0.1:
        return None
    return b"junk" if choice < 0.15 else json.dumps({"n": rng.getrandbits(40)}).encode()


def produced(broker: Broker, rng: random.Random, log: list[list[tuple[bytes, bytes | None]]]) -> None:
    """More records: some do not fit, some are tombstones."""
    for partition in (0, 1):
        batch: list[tuple[bytes, bytes | None]] = []
        for _ in range(RECORDS):
            key = b"key-%d" % rng.randrange(60)
            batch.append((key, value_of(rng)))
        broker.produce(TOPIC, *batch, partition=partition)
        log[partition] += batch


def options_of(target: Any) -> list[str]:
    return [word for key, value in target.options.items() for word in ("--option", f"{key}={value}")]


def killed(words: list[str], rng: random.Random) -> int:
    """Run a writer, kill it a moment after its first sign of work or before; return the commits it reported."""
    with subprocess.Popen(
        [sys.executable, "-m", "kpybroker", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stderr is not None
        lines = 0
        for _ in range(rng.randrange(4)):
            lines += bool(writer.stderr.readline())
        time.sleep(rng.random() * 0.2)
        writer.kill()
        rest = writer.stderr.read()
        assert "Traceback" not in rest
        assert "Error" not in rest, rest
    return lines


def expected(log: list[list[tuple[bytes, bytes | None]]], mode: str) -> dict[tuple[int, int], int | None]:
    """The number in each row, by partition and offset, as the records say."""
    found: dict[tuple[int, int], int | None] = {}
    for partition, records in enumerate(log):
        last = {key: offset for offset, (key, _) in enumerate(records)}
        for offset, (key, value) in enumerate(records):
            if value == b"junk" or (mode == "upsert" and (last[key] != offset or value is None)):
                continue
            found[partition, offset] = None if value is None else json.loads(value)["n"]
    return found


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("form", range(len(FORMS)), ids=["-".join(form) for form in FORMS])
def test_table_equals_topic_through_kills(request: pytest.FixtureRequest, tmp_path: Path, form: int) -> None:
    kills = kills_of(form, request.config.getoption("--lake-kills"))
    if not kills:
        pytest.skip("needs --lake-kills=100, as make lake gives")
    kind, mode = FORMS[form]
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    target = target_in(tmp_path, kind)
    log: list[list[tuple[bytes, bytes | None]]] = [[], []]
    reported = 0
    with Broker() as broker:
        broker.create_topic(TOPIC, 2)
        place = [repr(target), *options_of(target)]
        server = ["-b", broker.bootstrap_servers]
        form_words = ["--mode", mode, "--values", "json"]
        words = ["lake", "run", TOPIC, *place, *form_words, "--commit-rows", "90", *server]
        for _ in range(kills):
            produced(broker, rng, log)
            reported += killed(words, rng)
        for command in (["run", TOPIC, *place, *form_words, "--once", "-q"], ["check", TOPIC, *place]):
            done = CliRunner().invoke(main, ["lake", *command, *server])
            assert done.exit_code == 0, (seed, done.output)
        print(done.output)
    table = target.open()
    assert table is not None
    origin = table.origin()
    assert origin is not None
    rows = [row for batch in table.rows(origin.topic_ids[0]) for row in batch.to_pylist()]
    assert {(row["_partition"], row["_offset"]): row["n"] for row in rows} == expected(log, mode), seed
    assert len(rows) == len(expected(log, mode))
    print(f"{kills} kills, {reported} commits reported by the killed writers")
