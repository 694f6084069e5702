"""Log directories with many logs are described in steps, while topics come and go."""

from types import SimpleNamespace
from typing import Any

from hosting_world import World

from kpybroker.requests.handlers import describe_log_dirs
from kpywire.messages.describe_log_dirs import DescribeLogDirsRequest

MANY = 200
FIRST, SECOND = (bytes([number]) * 16 for number in (1, 2))


def test_logs_are_described_in_steps_and_those_that_go_meanwhile_are_left_out() -> None:
    world = World()
    world.create(MANY, "first", FIRST)
    world.create(MANY, "second", SECOND)
    world.scheduler.run()
    broker: Any = SimpleNamespace(replicas=world.replicas)
    steps = describe_log_dirs.handle(broker, DescribeLogDirsRequest(topics=None), None)  # type: ignore[arg-type]
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            response = end.value
            break
        pauses += 1
        if pauses == 1:
            world.delete(SECOND)
            world.create(1, "third", bytes(16 * [3]))
            world.scheduler.run()
    assert pauses >= MANY // describe_log_dirs.STEP
    (directory,) = response.results
    assert [(topic.name, len(topic.partitions)) for topic in directory.topics] == [("first", MANY)]
