"""The batches that readers of committed records leave out."""

from hypothesis import given
from hypothesis import strategies as st

from kpywire.aborted import Aborted
from kpywire.batch import batch_headers
from kpywire.control_record import marker_batch
from kpywire.record import Record, build_batch

Step = tuple[int, str]


def written(steps: list[Step]) -> tuple[bytes, list[tuple[int, int, int]], set[int]]:
    """A log of one record a batch: its bytes, the aborted transactions (first offset, marker, producer), and the
    offsets of committed records."""
    log, aborted, shown = [], [], set[int]()
    opened: dict[int, list[int]] = {}
    for offset, (producer, what) in enumerate(steps):
        if what == "write":
            opened.setdefault(producer, []).append(offset)
            values = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
            log.append(build_batch([Record(value=b"v")], base_offset=offset, **values, transactional=True))
            continue
        commit = what == "commit"
        of_producer = {"producer_id": producer, "producer_epoch": 0}
        log.append(bytes(marker_batch(offset, 0, 5, commit=commit, coordinator_epoch=0, **of_producer)))
        offsets = opened.pop(producer, [])
        if commit:
            shown.update(offsets)
        elif offsets:
            aborted.append((offsets[0], offset, producer))
    last_stable = min((offsets[0] for offsets in opened.values()), default=len(steps))
    return b"".join(log[:last_stable]), aborted, {offset for offset in shown if offset < last_stable}


steps = st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["write", "write", "commit", "abort"])), max_size=25)


@given(steps, st.integers(0, 25))
def test_a_reader_gets_the_committed_records_from_any_offset(chosen: list[Step], start: int) -> None:
    data, aborted, shown = written(chosen)
    listed = Aborted((first, producer) for first, marker, producer in aborted if marker >= start)
    found = {
        header.base_offset
        for position, header in batch_headers(data)
        if header.base_offset >= start and not listed.skips(data, header, position)
    }
    assert found == {offset for offset in shown if offset >= start}


def test_a_reader_that_begins_at_the_marker_of_an_abort_gets_what_the_producer_commits_next() -> None:
    data, aborted, shown = written([(1, "write"), (1, "abort"), (1, "write"), (1, "commit")])
    listed = Aborted((first, producer) for first, _, producer in aborted)
    batches = list(batch_headers(data))[1:]
    assert [header.base_offset for position, header in batches if not listed.skips(data, header, position)] == [2]
    assert shown == {2}
