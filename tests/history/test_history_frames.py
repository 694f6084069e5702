"""The file's form: what is written is read again, and of a torn or damaged file what is whole before the damage."""

from random import Random

import pytest
from day import samples
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.monitoring.history import codec
from kpybroker.monitoring.history.codec import FIRST_LINE, Writer, read
from kpybroker.monitoring.history.samples import HistoryEvent, KeptSample, Rings

EVENT = HistoryEvent(1_700_000_000_000, "config", "topic größer-\U0001f600", 2, "a, b")


def filled(count: int, seed: int = 0) -> Rings:
    """Rings with some samples, whose groups change, and events."""
    rng, rings, since_ms = Random(seed), Rings(), 1_700_000_040_000
    while len(rings.fine) < count:
        for each in samples(rng.randrange(1, 9), rng.randrange(4), since_ms):
            rings.add(each)
        since_ms = rings.fine[-1].at_ms + rng.randrange(3) * 30_000
        rings.note(EVENT._replace(at_ms=since_ms, subject=f"topic-{rng.randrange(9)}"))
    return rings


def content_of(rings: Rings) -> bytes:
    return b"".join(Writer().whole(rings))


def plain(samples: "list[KeptSample]") -> list[tuple[object, ...]]:
    return [(each.at_ms, list(each.values), each.groups, list(each.lags)) for each in samples]


def same(found: Rings, expected: Rings) -> bool:
    return (
        plain(list(found.fine)) == plain(list(expected.fine))
        and plain(list(found.coarse)) == plain(list(expected.coarse))
        and list(found.events) == list(expected.events)
    )


@pytest.mark.parametrize("seed", range(5))
def test_what_is_written_is_read_again(seed: int) -> None:
    rings = filled(40, seed)
    content = content_of(rings)
    found = read(content)
    assert found.read_bytes == len(content)
    assert same(found.rings, rings)


def test_appended_frames_are_read_behind_the_others() -> None:
    rings, writer = filled(20), Writer()
    content = b"".join(writer.whole(rings))
    for each in samples(10, 5, rings.fine[-1].at_ms):
        finished = rings.add(each)
        content += writer.fine(each) + (b"" if finished is None else writer.coarse(finished))
    rings.note(EVENT)
    content += writer.event(EVENT)
    assert same(read(content).rings, rings)


def test_a_file_that_is_cut_at_any_byte_keeps_what_is_whole() -> None:
    content = content_of(filled(12))
    whole = plain(list(read(content).rings.fine))
    last = 0
    for length in range(len(content) + 1):
        found = read(content[:length])
        assert found.read_bytes <= length
        kept = plain(list(found.rings.fine))
        assert kept == whole[: len(kept)]
        assert len(kept) >= last
        last = len(kept)
    assert last == len(whole)


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_damaged_byte_ends_the_file_before_its_frame(place: int, change: int) -> None:
    content = bytearray(content_of(CASE))
    content[place % len(content)] ^= change
    found = read(bytes(content))
    assert found.read_bytes <= max(place % len(content), 0)
    kept = plain(list(found.rings.fine))
    assert kept == plain(list(CASE.fine))[: len(kept)]


CASE = filled(12, 7)


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert read(data).read_bytes <= len(data) or not data.startswith(FIRST_LINE)
    read(FIRST_LINE + data)


@given(st.integers(0, 4), st.binary(max_size=200))
def test_a_frame_with_a_right_checksum_and_any_content_is_no_error(kind: int, payload: bytes) -> None:
    read(FIRST_LINE + codec._frame(kind, payload))


def test_values_of_another_version_are_found_by_their_names() -> None:
    names = codec._frame(codec.VALUES, b'["requests","unknown"]')
    sample = codec._frame(codec.FINE, codec.struct.pack("<q2f", 1_700_000_040_000, 5.0, 6.0))
    (found,) = read(FIRST_LINE + names + sample).rings.fine
    assert found.value("requests") == 5.0
    assert found.value("bytes in") != found.value("bytes in"), "it is missing"
