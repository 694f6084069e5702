"""The transaction of a job, with a crash at each of its calls, and with zombies that wake up at any time."""

import contextlib
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kpybroker.client.appending import Appender
from kpybroker.client.client import Client, Spot
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.errors import ScanError
from kpybroker.pipeline.sink import committing
from kpybroker.pipeline.sink.options import Mark
from kpybroker.pipeline.sink.packing import Batches, Chooser, Packer, SinkRow
from kpybroker.testing import Broker
from support.stepping_clients import SETTINGS, Killed, Mortal, Turns

PARTITIONS = 3
TIMEOUT_MS = 60_000
EXPECTED = (KafkaError, ScanError, Unreachable)
numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as started:
        yield started


@pytest.fixture
def topic(broker: Broker) -> str:
    return new_topic(broker)


def new_topic(broker: Broker) -> str:
    name = f"t{next(numbers)}"
    broker.create_topic(name, PARTITIONS)
    return name


def client_of(broker: Broker) -> Client:
    return Client(broker.bootstrap_servers, 5.0, SETTINGS)


def rows(topic: str, batch: int, task: int) -> list[SinkRow]:
    """The rows of a task: two for each partition."""
    values = [b"%d.%d.%d" % (batch, task, number) for number in range(2 * PARTITIONS)]
    return [SinkRow(topic, number % PARTITIONS, None, value) for number, value in enumerate(values)]


def packed(topic: str, batch: int, task: int, only: int | None = None) -> Batches:
    """The batches of a task, with one row each; those of one partition if it is the only one."""
    packer = Packer(Chooser(lambda _: PARTITIONS), lambda: 1, batch_bytes=1)
    for row in rows(topic, batch, task):
        if only in (None, row.partition):
            packer.add(row)
    return packer.take_all()


def through_driver(client: Client, topic: str, batch: int) -> None:
    """A micro-batch of two tasks that the driver writes."""
    parts = [packed(topic, batch, task) for task in range(2)]
    committing.write(client, topic, TIMEOUT_MS, Mark("query", batch), parts)


def by_tasks(client: Client, topic: str, batch: int) -> None:
    """A micro-batch with a task for each partition, which writes itself."""
    identity = committing.begin(client, topic, TIMEOUT_MS)
    if committing.is_done(client, topic, Mark("query", batch)):
        return
    claims = []
    for task in range(PARTITIONS):
        appender = Appender(client, identity)
        appender.append(packed(topic, batch, 0, only=task))
        appender.append(packed(topic, batch, 1, only=task))
        claims.append(appender.counts)
    committing.commit(client, identity, Mark("query", batch), claims)


WAYS = {"through the driver": through_driver, "by tasks": by_tasks}


def check(broker: Broker, topic: str, batches: int) -> None:
    """Every row of every micro-batch is visible once, and in order."""
    found: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for record in broker.records(topic, isolation="read_committed"):
        found[record.partition].append(record.value)
    for partition in found:
        assert found[partition] == [
            row.value
            for batch in range(batches)
            for task in range(2)
            for row in rows(topic, batch, task)
            if row.partition == partition
        ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_served", [False, True], ids=["request lost", "answer lost"])
def test_a_driver_that_dies_at_any_call_is_followed_by_one_that_completes_its_work(
    broker: Broker, way: str, is_served: bool
) -> None:
    write = WAYS[way]
    for last_call in itertools.count(1):
        topic = new_topic(broker)
        with client_of(broker) as client:
            write(client, topic, 0)
        mortal = Mortal(client_of(broker), last_call, is_served=is_served)
        with mortal:
            with contextlib.suppress(Killed):
                write(mortal, topic, 1)
            is_complete = not mortal.is_dead
        with client_of(broker) as client:
            write(client, topic, 1)
            write(client, topic, 2)
            write(client, topic, 2)
        check(broker, topic, 3)
        if is_complete:
            break
    assert last_call > 8


def test_each_of_two_crashes_in_a_row_leaves_nothing_that_is_written_twice(broker: Broker) -> None:
    for first, second in itertools.product(range(3, 13, 3), range(2, 12, 3)):
        topic = new_topic(broker)
        for last_call in (first, second):
            with Mortal(client_of(broker), last_call, is_served=True) as mortal, contextlib.suppress(Killed):
                through_driver(mortal, topic, 0)
        with client_of(broker) as client:
            through_driver(client, topic, 0)
        check(broker, topic, 1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    schedule=st.lists(st.integers(0, 2), max_size=80),
    ways=st.lists(st.sampled_from(sorted(WAYS)), min_size=3, max_size=3),
)
def test_drivers_that_do_not_know_of_each_other_write_each_micro_batch_once(
    broker: Broker, schedule: list[int], ways: list[str]
) -> None:
    topic = new_topic(broker)
    turns = Turns(schedule)

    def driver(number: int) -> None:
        with turns.client(number, broker.bootstrap_servers) as client:
            for batch in range(2):
                WAYS[ways[number]](client, topic, batch)

    errors = turns.run([lambda number=number: driver(number) for number in range(3)])  # type: ignore[misc]
    assert all(error is None or isinstance(error, EXPECTED) for error in errors), errors
    with client_of(broker) as client:
        for batch in range(2):
            through_driver(client, topic, batch)
    check(broker, topic, 2)


def test_a_task_of_an_aborted_job_that_wakes_up_late_writes_nothing(broker: Broker, topic: str) -> None:
    with client_of(broker) as client, client_of(broker) as late:
        identity = committing.begin(client, topic, TIMEOUT_MS)
        zombie = Appender(late, identity)
        zombie.append(packed(topic, 7, 0, only=0))
        committing.abort(client, topic, TIMEOUT_MS)
        for step in (lambda: None, lambda: by_tasks(client, topic, 0), lambda: by_tasks(client, topic, 1)):
            step()
            for only in range(PARTITIONS):
                with pytest.raises(KafkaError):
                    Appender(late, identity).append(packed(topic, 7, 1, only=only))
    check(broker, topic, 2)


def test_a_job_whose_tasks_wrote_the_same_partition_is_not_visible(broker: Broker, topic: str) -> None:
    with client_of(broker) as client:
        identity = committing.begin(client, topic, TIMEOUT_MS)
        Appender(client, identity).append(packed(topic, 0, 0, only=0))
        claims = [{Spot(topic, 0): 2}, {Spot(topic, 0): 2}]
        with pytest.raises(ScanError, match=f"two tasks have rows for partition {topic}-0.*nothing was written"):
            committing.commit(client, identity, Mark("query", 0), claims)
        by_tasks(client, topic, 0)
    check(broker, topic, 1)


def test_marks_of_a_query_hold_for_all_topics_and_not_for_other_queries(broker: Broker, topic: str) -> None:
    other = new_topic(broker)
    with client_of(broker) as client:
        for batch, name in enumerate((topic, other, topic, other, other)):
            committing.write(client, "marks", TIMEOUT_MS, Mark("query", batch), [packed(name, batch, 0)])
        assert committing.marks(client, "marks") == {"query": 4}
        assert not committing.write(client, "marks", TIMEOUT_MS, Mark("query", 3), [packed(topic, 3, 0)])
        assert committing.write(client, "marks", TIMEOUT_MS, Mark("another", 0), [packed(topic, 0, 0)])


def test_a_batch_too_large_for_its_topic_is_divided(broker: Broker) -> None:
    name = f"t{next(numbers)}"
    broker.create_topic(name, 1, {"max.message.bytes": 1000})
    packer = Packer(Chooser(lambda _: 1), lambda: 1)
    for number in range(100):
        packer.add(SinkRow(name, None, None, b"%099d" % number))
    with client_of(broker) as client:
        committing.write(client, name, TIMEOUT_MS, None, [packer.take_all()])
        assert [int(record.value) for record in broker.records(name, isolation="read_committed")] == list(range(100))
        packer.add(SinkRow(name, None, None, b"x"))
        packer.add(SinkRow(name, None, None, b"x" * 2000))
        with pytest.raises(KafkaError, match=f"MESSAGE_TOO_LARGE.*{name}-0"):
            committing.write(client, name, TIMEOUT_MS, None, [packer.take_all()])
    assert len(list(broker.records(name, isolation="read_committed"))) == 100
