"""The bare ceiling: what it answers, writes and sends, and how that is recorded."""

import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import framing
import pytest

from benchmarks.ceiling import answers, files
from benchmarks.ceiling.relay import RelayError, without_id
from benchmarks.ceiling.side import REFUSED, Bare, Ceiling
from benchmarks.raw import compiled, frames, grouping
from benchmarks.raw.asking import Address, Conversation
from benchmarks.rows import SUITES
from benchmarks.rows.consuming import DrainRaw
from benchmarks.rows.requesting import RoundTrip
from benchmarks.rows.row import QUICK
from benchmarks.sides import HOST
from kpywire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from oracle import free_port
from oracle.process import API_VERSIONS_V0, METADATA_V1_NO_TOPICS

needs_cc = pytest.mark.skipif(compiled.compiler() is None, reason="no C compiler (cc) on this machine")
NOW_MS = 1_700_000_000_000
BATCH = frames.batch([b"a", b"b", b"c"], NOW_MS)
PRODUCE = frames.produce("t", [0], BATCH)
COMMIT = grouping.offset_commit("group", "t", 0, 7)
HEAD = struct.pack(">ihqqq", 0, 0, 3, 3, 0) + b"\x01" + struct.pack(">i", -1)


def key(framed: bytes) -> bytes:
    return without_id(framed[4:])


def answer(body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, 0) + body


def fetch(offset: int, max_wait_ms: int = 0) -> bytes:
    return frames.fetch("t", 0, offset, max_bytes=1 << 20, min_bytes=1, max_wait_ms=max_wait_ms).frame


def records_in(answered: bytes) -> bytes:
    """The records of the one partition."""
    return answered[answered.index(HEAD) + len(HEAD) :][1:-3]


def ceiling_answers(base: int) -> bytes:
    """The answer of a broker to the Produce."""
    answered = PartitionProduceResponse(index=0, error_code=0, base_offset=base, log_start_offset=0)
    responses = [TopicProduceResponse(name="t", partition_responses=[answered])]
    return framing.answer(ProduceResponse(responses=responses), 0, frames.PRODUCE_VERSION)


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Bare]:
    """The program, with answers to a few requests and a segment of two batches."""
    segment = tmp_path / "segment"
    segment.write_bytes(BATCH + struct.pack(">q", 3) + BATCH[8:])
    pieces = [
        files.Piece(0, 0, str(segment), 0, len(BATCH), HEAD, b"\0"),
        files.Piece(0, 3, str(segment), len(BATCH), len(BATCH), HEAD, b"\0"),
        files.Piece(0, 6, "", 0, 0, HEAD, b"\0"),
    ]
    known = {
        API_VERSIONS_V0[:4] + API_VERSIONS_V0[8:]: answer(struct.pack(">hi", 0, 0)),
        METADATA_V1_NO_TOPICS[:4] + METADATA_V1_NO_TOPICS[8:]: answer(struct.pack(">i", 1)),
        key(COMMIT.frame): answer(b"committed"),
        key(grouping.heartbeat("one", 1, "member")): answer(b"first"),
        key(grouping.heartbeat("two", 1, "member")): answer(b"second"),
    }
    program = Bare(tmp_path, free_port())
    program.answers_file.write_bytes(answers.written(known, {(b"t", b""): pieces}))
    with program:
        yield program


@pytest.fixture
def client(bare: Bare) -> Iterator[Conversation]:
    with Conversation(Address(HOST, bare.port)) as conversation:
        yield conversation


@needs_cc
def test_a_produce_is_written_with_its_offsets_and_answered(bare: Bare, client: Conversation) -> None:
    for base in (6, 9, 12):
        answered = client.ask(PRODUCE.frame)
        (error_at,) = PRODUCE.error_offsets
        assert struct.unpack_from(">hq", answered, error_at) == (0, base)
        assert answered == ceiling_answers(base)
    assert bare.written_records() == 9
    (log,) = bare.logs()
    assert [base for base, _ in files.batches(log)] == [6, 9, 12]
    bare.empty()
    assert bare.written_records() == 0


@needs_cc
def test_a_request_is_answered_with_its_own_bytes_or_with_those_of_its_kind(client: Conversation) -> None:
    assert client.ask(grouping.heartbeat("one", 1, "member"))[4:] == b"first"
    assert client.ask(grouping.heartbeat("two", 1, "member"))[4:] == b"second"
    assert client.ask(grouping.heartbeat("three", 1, "member"))[4:] == b"second"


@needs_cc
def test_a_commit_is_written_too(bare: Bare, client: Conversation) -> None:
    assert client.ask(COMMIT.frame)[4:] == b"committed"
    assert b"group" in (bare.data / "commits").read_bytes()


@needs_cc
def test_a_request_that_was_not_recorded_gets_no_answer_and_others_do(bare: Bare, client: Conversation) -> None:
    with Conversation(Address(HOST, bare.port)) as other, pytest.raises(ConnectionError):
        other.ask(grouping.find_coordinator("one"))
    assert client.ask(COMMIT.frame)[4:] == b"committed"
    assert "no request 10 of version 2 was recorded" in bare.tail()


@needs_cc
def test_a_fetch_is_answered_with_the_bytes_of_a_file(client: Conversation) -> None:
    assert records_in(client.ask(fetch(0))) == BATCH
    assert records_in(client.ask(fetch(3))) == struct.pack(">q", 3) + BATCH[8:]
    assert records_in(client.ask(fetch(6))) == b""


@needs_cc
def test_a_fetch_at_the_end_waits_for_a_produce(bare: Bare, client: Conversation) -> None:
    def later() -> None:
        time.sleep(0.1)
        with Conversation(Address(HOST, bare.port)) as other:
            other.ask(PRODUCE.frame)

    thread = threading.Thread(target=later)
    thread.start()
    answered = client.ask(fetch(6, max_wait_ms=60_000))
    thread.join()
    assert records_in(answered) == struct.pack(">q", 6) + BATCH[8:]


@pytest.mark.parametrize("offset", [0, 5, 1 << 40])
def test_a_parsed_fetch_request_is_encoded_again(offset: int) -> None:
    framed = fetch(offset)
    (one,) = files.asked(key(framed))
    assert one == files.Asked(frames.FETCH_VERSION, 0, b"t", 0, 1 << 20, offset)
    (again,) = files.asked(key(files.request(one)))
    assert again == one


def test_the_next_offset_is_behind_the_last_whole_batch() -> None:
    assert files.behind(BATCH) == 3
    assert files.behind(BATCH + struct.pack(">q", 3) + BATCH[8:-1]) == 3
    with pytest.raises(files.FetchError):
        files.behind(BATCH[:-1])


def test_the_answer_to_a_produce_is_not_recorded() -> None:
    assert key(PRODUCE.frame) == b""


def test_versions_that_cannot_be_played_are_an_error() -> None:
    with pytest.raises(RelayError, match="version 7 of request 0"):
        without_id(struct.pack(">hhih", 0, 7, 1, -1))


def test_every_row_is_played_or_refused_for_a_reason(tmp_path: Path) -> None:
    ceiling = Ceiling("C", tmp_path)
    keys = [row.key for suite in SUITES.values() for row in suite(QUICK)]
    played = {each for each in keys if ceiling.refuses(each) is None}
    assert played >= {"produce-confluent-1000", "small-requests-200", "round-trip", "many-partitions-100", "commit-50"}
    assert played >= {"drain", "consume-confluent-1000", "consume-committed-100", "tail-beside-cold", "end-to-end"}
    assert not played & {"produce-python-1000", "consume-java-1000", "end-to-end-java", "spark", "rebalance-20"}
    assert all(any(each.startswith(beginning) for each in keys) for beginning in REFUSED)


@needs_cc
@pytest.mark.parametrize("row", [RoundTrip(QUICK._replace(load_s=0.2), 1), DrainRaw(QUICK._replace(load_s=0.2))])
def test_rows_are_played_on_what_kpybroker_had_answered(row: RoundTrip | DrainRaw, tmp_path: Path) -> None:
    with Ceiling("C", tmp_path) as side:
        row.open(side)
        side.rehearse(lambda: row.play(side))
        assert side.bare is not None
        seen = row.play(side)
        side.end_row()
        row.close(side)
    assert all(value > 0 for value in seen.values())
