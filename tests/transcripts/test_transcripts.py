"""Every story below this directory shows what its machine does, line by line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from balance_stories import BalanceStory
from classic_group_stories import ClassicGroupStory
from consumer_group_stories import ConsumerGroupStory
from controller_stories import ControllerStory
from migration_stories import MigrationStory
from quorum_stories import QuorumStory
from rendering import StoryError, StoryMachine, outcome, played
from share_coordinator_stories import ShareCoordinatorStory
from share_group_stories import ShareGroupStory
from share_partition_stories import SharePartitionStory
from streams_group_stories import StreamsGroupStory
from transaction_stories import TransactionStory
from zookeeper_controller_stories import ZooKeeperControllerStory

HERE = Path(__file__).resolve().parent
MACHINES: dict[str, Callable[[], StoryMachine]] = {
    "classic_groups": ClassicGroupStory,
    "consumer_groups": ConsumerGroupStory,
    "share_groups": ShareGroupStory,
    "streams_groups": StreamsGroupStory,
    "share_partition": SharePartitionStory,
    "share_coordinator": ShareCoordinatorStory,
    "transactions": TransactionStory,
    "raft": QuorumStory,
    "controller": ControllerStory,
    "zookeeper_controller": ZooKeeperControllerStory,
    "migration": MigrationStory,
    "balance": BalanceStory,
}
STORIES = sorted(HERE.glob("*/*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_machine_does_what_its_story_shows(path: Path, request: pytest.FixtureRequest) -> None:
    story = path.read_text()
    now = played(story, MACHINES[path.parent.name]())
    if request.config.getoption("--record-transcripts"):
        path.write_text(now)
    else:
        assert now.splitlines() == story.splitlines(), "`pytest tests/transcripts --record-transcripts` rewrites it"


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_has_stories_that_say_what_they_show(machine: str) -> None:
    stories = [path.read_text() for path in STORIES if path.parent.name == machine]
    assert len(stories) >= 3
    assert all(story.startswith("# ") for story in stories)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_story_that_is_played_again_stays_as_it_is(path: Path) -> None:
    make = MACHINES[path.parent.name]
    once = played(path.read_text(), make())
    assert played(once, make()) == once


@pytest.mark.parametrize("line", ["> join", "> 0 ms  jion client=a", "> 0 ms  heartbeat member=a generation=1"])
def test_a_line_that_cannot_be_played_is_refused(line: str) -> None:
    with pytest.raises(StoryError):
        outcome(line, ClassicGroupStory())
