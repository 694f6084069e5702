"""A search through partitions of other nodes: it counts on, ends when it has enough, and stops when it is cancelled."""

import asyncio
from collections.abc import AsyncIterator

from kpybroker.machines.console.record_tasks import (
    Answer,
    FoundRecord,
    RecordTask,
    SearchEnded,
    SearchProgress,
    Unreadable,
    found_of,
)
from kpybroker.monitoring.console.searches import Search, SearchTitle
from kpywire.batch import parse_header
from kpywire.record import Record, build_batch

BATCH = parse_header(build_batch([Record()]))


def found(partition: int, offset: int) -> FoundRecord:
    return found_of(partition, BATCH, Record(offset=offset, timestamp=1))


class Others:
    """Partitions of other nodes with ten records each, of which every second matches."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int | None, int]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def search(self, number: int, offset: int | None, most: int) -> AsyncIterator[Answer]:
        self.asked.append((number, offset, most))
        if number == 9:
            yield Unreadable(9, 0, "node 3: it does not answer")
            return
        for place in range(offset or 0, 10, 2):
            await self.may_go_on.wait()
            yield found(number, place)
            yield SearchProgress(100 * (place + 2), place + 2, number, place + 2)


def search_of(others: Others, most: int, *numbers: int) -> Search:
    made = Search(RecordTask((), most, is_search=True), SearchTitle("t"), "User:ann", 4000)
    made.others.update(dict.fromkeys(numbers))
    made.search_other = others.search
    return made


async def until_ended() -> None:
    """Wait for the tasks of the search."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(others, timeout=60)


def test_the_partitions_are_searched_one_after_the_other_and_counted_on() -> None:
    async def run() -> None:
        others = Others()
        search = search_of(others, 200, 3, 9, 4)
        search.on_answer(SearchEnded("", (), read_bytes=500, records=7))
        await until_ended()
        assert (search.state, search.reason, search.is_full, search.others) == ("done", "", False, {})
        assert (search.progress.read_bytes, search.progress.records) == (500 + 2 * 1000, 7 + 2 * 10)
        assert [(each.partition, each.offset) for each in search.found] == [
            (n, at) for n in (3, 4) for at in range(0, 10, 2)
        ]
        assert [each.reason for each in search.unreadable] == ["node 3: it does not answer"]
        assert others.asked == [(3, None, 200), (9, None, 195), (4, None, 195)]

    asyncio.run(run())


def test_it_ends_with_enough_and_another_goes_on_there() -> None:
    async def run() -> None:
        others = Others()
        search = search_of(others, 7, 3, 4)
        search.on_answer(SearchEnded("", ()))
        await until_ended()
        assert (search.reason, search.is_full, search.others) == ("7 records were found", True, {4: 3})
        assert search.search_other is None, "the login of the viewer is forgotten with its end"
        behind = search.behind(search.task)
        assert (behind.before.found, behind.before.records) == (7, search.progress.records)

    asyncio.run(run())


def test_nothing_more_is_asked_once_it_is_cancelled() -> None:
    async def run() -> None:
        others = Others()
        others.may_go_on.clear()
        search = search_of(others, 200, 3, 4)
        search.on_answer(SearchEnded("", ()))
        await asyncio.sleep(0)
        assert others.asked == [(3, None, 200)]
        search.end("cancelled")
        others.may_go_on.set()
        await until_ended()
        assert (search.state, search.found, len(others.asked)) == ("cancelled", [], 1)

    asyncio.run(run())


def test_a_search_that_has_enough_here_asks_no_other_node() -> None:
    async def run() -> None:
        others = Others()
        search = search_of(others, 200, 3)
        search.on_answer(SearchEnded("200 records were found", ()))
        await asyncio.sleep(0)
        assert (search.state, search.is_full, others.asked) == ("done", True, [])

    asyncio.run(run())
