"""The clicks in ``docs/console.md`` are those that a person needs in a real browser."""

from collections.abc import Iterator

import pytest
from console_node import ConsoleNode, console_node
from jobs import DOCUMENT, JOBS, SETTINGS, CountingBrowser, Job, clicks_of, furnish, row_of

pytestmark = pytest.mark.slow


@pytest.fixture
def node() -> Iterator[ConsoleNode]:
    with console_node(**SETTINGS) as made:
        furnish(made)
        yield made


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CountingBrowser]:
    with CountingBrowser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_job_takes_as_many_clicks_as_documented(node: ConsoleNode, browser: CountingBrowser, job: Job) -> None:
    assert row_of(DOCUMENT.read_text(), job)[2] == clicks_of(job, browser, node), "make clicks"


def test_there_are_twenty_jobs_and_none_is_there_twice() -> None:
    assert len({job.name for job in JOBS}) == len(JOBS) == 20
