"""Fetch by consumers of records that are in the store: which bytes of which partitions an answer has."""

from functools import partial

import pytest

from kpywire import error_codes
from kpywire.messages.fetch import FetchResponse
from support.raw_client import RawClient
from support.raw_requests import metadata_of
from support.special_timestamps import EARLIEST_LOCAL
from support.waiting import becomes
from tiered.filling import append, batch, create_tiered, delete_records, fill, fill_transactions
from tiered.reading import BY_NAME, READ_COMMITTED, answers, batches, committed, fetch, headers_in, offset

MUCH = 50 << 20
"""The bytes that a consumer asks of all partitions by default."""
Offsets = list[tuple[int, int]]


def only_remote(client: RawClient, name: str, partitions: int = 1, segments: int = 10) -> None:
    """A topic whose partitions have all but their active segments in the store alone."""
    create_tiered(client, name, partitions, only_remote=True)
    for partition in range(partitions):
        fill(client, name, range(segments), partition)
    for partition in range(partitions):
        becomes(partial(offset, client, name, EARLIEST_LOCAL, partition), 2 * segments - 2)


def found(response: FetchResponse) -> dict[int, Offsets]:
    """The first and last offset of each whole batch, by partition."""
    return {
        index: [(header.base_offset, header.last_offset) for header in headers_in(data)]
        for index, data in answers(response).items()
    }


def test_an_answer_has_the_batches_of_one_segment(client: RawClient, name: str) -> None:
    only_remote(client, name)
    asked = (0, 1, 4, 5, 16, 17, 18, 19, 20)
    got = {at: found(client.call(fetch(name, {0: at}, max_wait_ms=100), BY_NAME))[0] for at in asked}
    assert got == {
        0: [(0, 1)],
        1: [(0, 1)],
        4: [(4, 5)],
        5: [(4, 5)],
        16: [(16, 17)],
        17: [(16, 17)],
        18: [(18, 19)],
        19: [(18, 19)],
        20: [],
    }
    (data,) = answers(client.call(fetch(name, {0: 4}), BY_NAME)).values()
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 20, 20, 0)
    assert data.aborted_transactions is None
    assert [each.base_offset for each in batches(client, name)] == list(range(0, 20, 2))


def test_an_answer_from_the_store_does_not_wait(client: RawClient, name: str) -> None:
    only_remote(client, name, segments=2)
    client.sock.settimeout(10)
    assert found(client.call(fetch(name, {0: 0}, max_wait_ms=20_000), BY_NAME)) == {0: [(0, 1)]}


@pytest.mark.parametrize("version", [*range(4, 19)])
def test_every_version_reads_from_the_store(client: RawClient, name: str, version: int) -> None:
    only_remote(client, name, segments=3)
    request = fetch(name, {0: 2})
    request.topics[0].topic_id = metadata_of(client, name).topic_id
    assert found(client.call(request, version)) == {0: [(2, 3)]}


@pytest.mark.parametrize(
    ("partition_max_bytes", "count"), [(1, 1), (10_000, 1), (15_000, 1), (25_000, 2), (1 << 20, 5)]
)
def test_the_first_batch_comes_whole_and_others_as_far_as_they_fit(
    client: RawClient, name: str, partition_max_bytes: int, count: int
) -> None:
    """The batch that has the asked offset is the first one. Apache Kafka adds a part of the one that does not fit."""
    create_tiered(client, name, only_remote=True)
    for _ in range(5):
        append(client, name, batch(0, 10, size=1000))
    fill(client, name, range(1, 3))
    becomes(lambda: offset(client, name, EARLIEST_LOCAL), 52)
    for at in (0, 5):
        request = fetch(name, {0: at}, partition_max_bytes=partition_max_bytes)
        (data,) = answers(client.call(request, BY_NAME)).values()
        assert len(data.records or b"") <= max(partition_max_bytes, 10_161)
        assert [header.base_offset for header in headers_in(data)] == [10 * each for each in range(count)]


def test_all_partitions_of_a_request_are_read(client: RawClient, name: str) -> None:
    """With records from the disk in an answer, kpybroker does not wait for the store: the next answer has both."""
    only_remote(client, name, 4, segments=4)
    wanted = {0: 0, 1: 2, 2: 4, 3: 6}
    everything = {0: [(0, 1)], 1: [(2, 3)], 2: [(4, 5)], 3: [(6, 7)]}
    becomes(lambda: found(client.call(fetch(name, wanted, max_bytes=MUCH), BY_NAME)), everything)
    at_the_end = found(client.call(fetch(name, {3: 8, 2: 0}, max_bytes=MUCH), BY_NAME))
    assert at_the_end == {3: [], 2: [(0, 1)]}


def test_the_first_partition_of_a_request_has_the_bytes_before_others(client: RawClient, name: str) -> None:
    """Apache Kafka takes a partition in the store for as large as what was asked of it, kpybroker for what it is."""
    only_remote(client, name, 3, segments=2)
    wanted = {0: 0, 1: 0, 2: 0}
    one, three = {0: [(0, 1)], 1: [], 2: []}, {index: [(0, 1)] for index in range(3)}

    def got(most: int, each: int) -> dict[int, Offsets]:
        return found(client.call(fetch(name, wanted, max_bytes=most, partition_max_bytes=each), BY_NAME))

    becomes(partial(got, 1, 1), one)
    becomes(partial(got, 150, 150), one)
    becomes(partial(got, 1000, 400), three)


def test_a_partition_on_the_disk_comes_first_where_it_is_asked_first(client: RawClient, name: str) -> None:
    only_remote(client, name, 2, segments=2)
    request = fetch(name, {1: 2, 0: 0}, max_bytes=50, partition_max_bytes=50)
    assert found(client.call(request, BY_NAME)) == {1: [(2, 3)], 0: []}


def test_an_unknown_partition_does_not_keep_others_from_being_read(client: RawClient, name: str) -> None:
    only_remote(client, name, 3, segments=2)
    request = fetch(name, {0: 0, 99: 0, 2: 0}, max_bytes=MUCH)
    codes = {index: data.error_code for index, data in answers(client.call(request, BY_NAME)).items()}
    assert codes == {0: 0, 99: error_codes.UNKNOWN_TOPIC_OR_PARTITION, 2: 0}
    becomes(lambda: found(client.call(request, BY_NAME)), {0: [(0, 1)], 99: [], 2: [(0, 1)]})


def test_offsets_below_the_start_and_behind_the_end_are_out_of_range(client: RawClient, name: str) -> None:
    only_remote(client, name)
    assert delete_records(client, name, 5) == (0, 5)
    for at in (0, 3, 4, 21):
        (data,) = answers(client.call(fetch(name, {0: at}, max_wait_ms=100), BY_NAME)).values()
        assert (data.error_code, data.high_watermark, data.log_start_offset) == (
            error_codes.OFFSET_OUT_OF_RANGE,
            -1,
            -1,
        )
    (data,) = answers(client.call(fetch(name, {0: 5}), BY_NAME)).values()
    assert (data.error_code, data.log_start_offset) == (0, 5)
    assert found(client.call(fetch(name, {0: 5}), BY_NAME)) == {0: [(4, 5)]}


def test_aborted_transactions_are_listed_where_their_markers_are_in_later_segments(
    client: RawClient, name: str
) -> None:
    """The batches of the second transaction, which is aborted, are in two segments; its marker is in the later one."""
    create_tiered(client, name, only_remote=True)
    fill_transactions(client, name, range(4))
    becomes(lambda: offset(client, name, EARLIEST_LOCAL), 10)
    got = {}
    for at in range(12):
        (data,) = answers(client.call(fetch(name, {0: at}, isolation=READ_COMMITTED), BY_NAME)).values()
        aborted = [each.first_offset for each in data.aborted_transactions or ()]
        got[at] = ([header.base_offset for header in headers_in(data)], aborted)
    assert got == {
        0: ([0], []),
        1: ([1, 2], []),
        2: ([2], []),
        3: ([3], [3]),
        4: ([4, 5], [3]),
        5: ([5], [3]),
        6: ([6], []),
        7: ([7, 8], []),
        8: ([8], []),
        9: ([9], []),
        10: ([10, 11], []),
        11: ([11], []),
    }
    assert committed(client, name) == [
        (0, b"0:0"),
        (1, b"0:1"),
        (6, b"2:0"),
        (7, b"2:1"),
        (9, b"3:0"),
        (10, b"3:1"),
    ]
