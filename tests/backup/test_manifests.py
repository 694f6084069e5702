"""Manifests as JSON, and the keys of objects."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from manifests import TOPIC_ID, manifest, partition, piece

from kpybroker.machines.backup.manifest import (
    BadManifest,
    BegunTransaction,
    GroupPosition,
    PartitionAtCut,
    ReadMarker,
    RunManifest,
    StoredPiece,
    TopicAtCut,
    TransactionEnd,
    entry_json,
    manifest_json,
    manifest_key,
    piece_key,
    place_of_entry,
    read_entry,
    read_manifest,
    run_of,
    run_of_manifest,
)

NUMBERS = st.integers(-1, 2**63 - 1)
PIECES = st.builds(
    StoredPiece,
    st.text(),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.text(),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.lists(st.builds(BegunTransaction, NUMBERS, NUMBERS, NUMBERS)).map(tuple),
)
PARTITIONS = st.builds(
    PartitionAtCut,
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.lists(PIECES, max_size=3).map(tuple),
    st.lists(st.builds(TransactionEnd, NUMBERS, NUMBERS, st.booleans()), max_size=3).map(tuple),
    st.lists(st.builds(ReadMarker, NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.booleans()), max_size=3).map(tuple),
)
NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,9}", fullmatch=True)
TEXTS = st.text(st.characters(codec=None), max_size=5)
MANIFESTS = st.builds(
    RunManifest,
    st.text(),
    st.text(),
    NUMBERS,
    NUMBERS,
    NUMBERS,
    st.lists(
        st.builds(TopicAtCut, NAMES, st.text(), st.dictionaries(st.text(), st.text(), max_size=2),
                  st.lists(PARTITIONS, max_size=2).map(tuple)),
        max_size=2,
    ).map(tuple),
    st.dictionaries(
        TEXTS, st.lists(st.builds(GroupPosition, st.text(), NUMBERS, NUMBERS, NUMBERS, TEXTS), max_size=2).map(tuple),
        max_size=2,
    ),
    st.lists(st.text(), max_size=2).map(tuple),
)  # fmt: skip


@given(MANIFESTS)
def test_a_manifest_is_read_as_it_was_written(made: RunManifest) -> None:
    assert read_manifest(manifest_json(made)) == made


@given(PIECES)
def test_an_entry_is_read_as_it_was_written(made: StoredPiece) -> None:
    assert read_entry(entry_json(made)) == made


@given(st.binary())
def test_other_bytes_are_no_manifest(text: bytes) -> None:
    for read in (read_manifest, read_entry):
        with pytest.raises(BadManifest, match="it is no"):
            read(text)


@given(st.data())
def test_a_manifest_without_a_field_or_with_another_type_is_refused(drawn: st.DataObject) -> None:
    document = json.loads(manifest_json(manifest(partition(piece(0, 10)))))
    place = drawn.draw(st.sampled_from([document, document["topics"][0], document["topics"][0]["partitions"][0]]))
    name = drawn.draw(st.sampled_from(sorted(place)))
    if drawn.draw(st.booleans()):
        del place[name]
    else:
        place[name] = None
    with pytest.raises(BadManifest):
        read_manifest(json.dumps(document).encode())


def test_a_manifest_of_a_later_version_is_refused_by_its_number() -> None:
    document = json.loads(manifest_json(manifest()))
    with pytest.raises(BadManifest, match="it is of version 2, and this program knows version 1"):
        read_manifest(json.dumps({**document, "version": 2}).encode())


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", ""])
def test_a_manifest_with_a_topic_that_leads_out_of_the_directory_is_refused(name: str) -> None:
    document = json.loads(manifest_json(manifest()))
    document["topics"][0]["name"] = name
    with pytest.raises(BadManifest, match="Topic name is invalid"):
        read_manifest(json.dumps(document).encode())


def test_the_run_the_place_and_the_kind_of_an_object_are_read_from_its_key() -> None:
    run = "20260131T120000.000Z"
    key = piece_key(TOPIC_ID, 3, 120, run)
    assert key == f"topics/{TOPIC_ID}/3/00000000000000000120-{run}.log"
    assert run_of(key) == run_of(key + ".json") == run
    assert place_of_entry(key + ".json") == (TOPIC_ID, 3)
    assert place_of_entry(key) is None
    assert run_of_manifest(manifest_key(run)) == run
    for other in (key, key + ".json", manifest_key(run).removesuffix(".json"), f"other/{run}.json"):
        assert run_of_manifest(other) is None


def test_a_manifest_is_a_text_that_people_read() -> None:
    text = manifest_json(manifest(partition(piece(0, 10)), cluster_id="größe")).decode()
    assert '\n "version": 1,\n' in text
    assert '\n "cluster_id": "größe",\n' in text


def test_a_run_counts_the_bytes_that_it_wrote() -> None:
    made = manifest(partition(piece(0, 10, "1"), piece(10, 20, "2", size_bytes=7)), run="2")
    assert (made.size_bytes, made.new_bytes) == (107, 7)
