"""Keys of objects and paths of files: the names that other software gave are made, read, and kept inside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_segments import NAME

from kpystorage.errors import CorruptObject
from kpystorage.remote.custom_metadata import CustomMetadata
from kpystorage.remote.keys import ObjectKind, main_path, object_key, parse_key, partition_path
from kpystorage.remote.local_tiered_storage import LocalFile, LocalFileName, missing, parse_path, path
from kpystorage.remote.segment_name import RemoteSegmentName
from kpywire.uuid import from_string

DOCUMENTED = RemoteSegmentName(
    "topic", from_string("MWJ6FHTfRYy67jzwZdeqSQ"), 7, 1234, from_string("tqimKeZwStOEOwRzT3L5oQ")
)
names = st.builds(
    RemoteSegmentName,
    st.text("abcXYZ019._-", min_size=1, max_size=30),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.binary(min_size=16, max_size=16),
)


def test_a_key_is_that_of_the_plugins_documentation() -> None:
    key = "someprefix/topic-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.log"
    assert object_key("someprefix/", DOCUMENTED, ObjectKind.LOG) == key
    assert object_key("", DOCUMENTED, ObjectKind.MANIFEST).endswith("5oQ.rsm-manifest")


@given(st.text("ab/-.", max_size=8), names, st.sampled_from(ObjectKind))
def test_a_key_tells_the_segment_and_the_kind_of_the_object(
    prefix: str, name: RemoteSegmentName, kind: ObjectKind
) -> None:
    key = object_key(prefix, name, kind)
    assert parse_key(prefix, key) == (name, kind)
    assert key.startswith(prefix + partition_path(name.topic, name.topic_id, name.partition))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "topic/7/00000000000000001234.log",
        "topic-MWJ6FHTfRYy67jzwZdeqSQ/7/1234-tqimKeZwStOEOwRzT3L5oQ.log",
        "topic-MWJ6FHTfRYy67jzwZdeqSQ/07/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.log",
        "topic-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.txt",
        "topic-MWJ6FHTfRYy67jzwZdeqSQ/7/99999999999999999999-tqimKeZwStOEOwRzT3L5oQ.log",
        "topic-MWJ6FHTfRYy67jzwZdeqSQ/2147483648/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.log",
        "topic-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oR.log",
        "x/topic-MWJ6FHTfRYy67jzwZdeqSQ/7/00000000000000001234-tqimKeZwStOEOwRzT3L5oQ.log",
    ],
)
def test_other_keys_are_none_of_the_layout(key: str) -> None:
    assert parse_key("", key) is None
    assert parse_key("else/", key) is None


def test_the_prefix_and_path_of_a_record_go_before_those_of_today() -> None:
    old = CustomMetadata(object_prefix="old/", object_key="moved/by-hand")
    assert object_key("new/", NAME, ObjectKind.LOG, old) == "old/moved/by-hand.log"
    assert object_key("new/", NAME, ObjectKind.LOG, CustomMetadata(5)) == f"new/{main_path(NAME)}.log"
    assert object_key("/new", NAME, ObjectKind.LOG, CustomMetadata(object_prefix="/new")).startswith("/newtopic1-")


def test_the_longest_key_of_a_record_has_1024_characters() -> None:
    custom = CustomMetadata(object_key="x" * 1024)
    assert object_key("p/", NAME, ObjectKind.LOG, custom) == "p/" + "x" * 1024 + ".log"


@pytest.mark.parametrize("part", ["../x", "a/../b", "/etc/passwd", ".", "a/.", "a\0b", "x" * 1025])
def test_a_record_leads_to_no_other_directory(part: str) -> None:
    for custom in (CustomMetadata(object_prefix=part), CustomMetadata(object_key=part)):
        with pytest.raises(CorruptObject, match="custom metadata with the key"):
            object_key("", NAME, ObjectKind.LOG, custom)


def test_a_file_of_kafkas_own_store_has_its_name() -> None:
    name = RemoteSegmentName(
        "my-to.pic", from_string("EAAAAAAAAAUAAAAAAAAAAg"), 3, 1234, from_string("AAwAAAAAAAAAAAAAAAAABA")
    )
    folder = "kafka-tiered-storage/my-to.pic-3-EAAAAAAAAAUAAAAAAAAAAg"
    found = path(name, LocalFile.LEADER_EPOCH_CHECKPOINT)
    assert found == f"{folder}/00000000000000001234-AAwAAAAAAAAAAAAAAAAABA.leader_epoch_checkpoint"


@given(names, st.sampled_from(LocalFile))
def test_a_path_tells_the_segment_and_the_file(name: RemoteSegmentName, file: LocalFile) -> None:
    assert parse_path(path(name, file)) == LocalFileName(name, file)


@pytest.mark.parametrize("found", ["", "a/b/c", "kafka-tiered-storage/t-3-EAAAAAAAAAUAAAAAAAAAAg/1.log", "x" * 500])
def test_other_paths_are_none_of_the_layout(found: str) -> None:
    assert parse_path(found) is None
    largest = NAME._replace(partition=2**31 - 1, start_offset=2**63 - 1)
    assert parse_path(path(largest, LocalFile.SEGMENT)) == (largest, LocalFile.SEGMENT)
    assert parse_key("", object_key("", largest, ObjectKind.LOG)) == (largest, ObjectKind.LOG)
    for name in (NAME._replace(partition=2**31), NAME._replace(start_offset=2**63)):
        assert parse_path(path(name, LocalFile.SEGMENT)) is None
        assert parse_key("", object_key("", name, ObjectKind.LOG)) is None
    assert parse_path(path(NAME, LocalFile.SEGMENT) + "x") is None


def test_a_segment_may_lack_its_transaction_index_alone() -> None:
    assert missing(LocalFile) == []
    assert missing(set(LocalFile) - {LocalFile.TRANSACTION_INDEX}) == []
    assert missing([LocalFile.TRANSACTION_INDEX, LocalFile.SEGMENT])[0] == LocalFile.OFFSET_INDEX
