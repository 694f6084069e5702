"""For every suite: what needs a program that is not on this machine is skipped, and says so; no test is timed.

pytest-timeout ends a test that hangs. It cannot end a fixture, a library in C that does not return to Python, or a
thread that is still there when all tests are over. In the first two the process ends and its stacks are the last lines
of `make test`; in the third it prints the test in which the thread began, and ends with the status of its tests.

Generated inputs differ from run to run, except with ``HYPOTHESIS_PROFILE=repeatable``.
"""

import concurrent.futures.thread
import faulthandler
import gc
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from oracle import jars
from oracle.recorded import recorded  # noqa: F401  a fixture

JDK = ("java", "javac")

FIXTURES_S = 300
"""How long the fixtures of one test may take, over its own limit."""
ENDING_S = 120
RERUNS = "KPYBROKER_RERUNS"
"""The environment variable with the file that gets the names of tests that failed or were run again."""
exit_status = pytest.StashKey[int]()
began_in = pytest.StashKey[dict[threading.Thread, str]]()
"""The test behind which each thread was first seen that holds this process."""
terminal = pytest.StashKey[int]()
"""Standard error as it was before pytest captured what is written there."""
stacks = pytest.StashKey[int]()
"""The file that gets the stacks of a process that hangs in a test: what `make test` prints last, or the terminal."""

# A deadline asserts wall time, which a busy machine does not keep.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("searching", UNTIMED)
settings.register_profile("repeatable", UNTIMED, derandomize=True, max_examples=30)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "searching"))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("recording")
    group.addoption("--record-kafka", action="store_true", help="ask Apache Kafka again for what quick tests replay")
    group.addoption("--record-transcripts", action="store_true", help="write what the machines do into the stories")
    group = parser.getgroup("hostile clients")
    group.addoption(
        "--hostile-rounds", type=int, default=1, help="the number of times 2 500 damaged requests of each API are sent"
    )
    group.addoption("--hostile-kpybroker", metavar="PATH", help="the command to attack, of another environment")
    group.addoption("--hostile-seed", type=int, default=20_261_120, help="what generated attacks follow from")
    group = parser.getgroup("authorization")
    group.addoption("--acl-decisions", type=int, default=20_000, help="how many decisions beside Kafka's authorizer")
    group = parser.getgroup("compaction")
    group.addoption("--cleaner-histories", type=int, default=2, help="how many of each kind beside Kafka's cleaner")
    group.addoption("--cleaner-seed", type=int, default=1, help="the seed of the first of them")
    group = parser.getgroup("durability")
    group.addoption("--durability-cuts", type=int, default=5, help="at how many points a recorded disk is cut; 0: all")
    group.addoption("--slow-disk-s", type=float, default=15, help="the time for which brokers run on slow disks")
    group = parser.getgroup("lake")
    group.addoption("--lake-kills", type=int, default=5, help="how many writers of lake tables are killed")
    group = parser.getgroup("moving")
    group.addoption(
        "--flips", type=int, default=60, help="how many flipped bits must be found; a tenth is started with"
    )
    group.addoption("--flip-seed", type=int, default=7, help="which ones")
    group = parser.getgroup("simulation")
    group.addoption("--more-seeds", type=int, default=1, help="the number of times as many seeds of each history")
    group.addoption("--kept-seeds", type=int, default=5, help="every nth seed that once failed is played; 1: all")
    group = parser.getgroup("audit")
    group.addoption("--audit-gib", type=int, default=9, help="the size of the generated logs that are audited, in GiB")
    group = parser.getgroup("releases")
    group.addoption(
        "--interpreter",
        action="append",
        type=Path,
        default=[],
        help="a Python to try packages with, in place of this one",
    )
    group.addoption(
        "--cross", action="append", default=[], metavar="TARGET", help="a platform whose wheel is compiled and tried"
    )
    group.addoption(
        "--cross-python", action="append", default=[], metavar="VERSION", help="the version of CPython of those wheels"
    )
    group.addoption("--deb", type=Path, help="the Debian package that is installed in a throwaway root")
    group = parser.getgroup("transactions")
    group.addoption("--transaction-seeds", type=int, default=40, help="how many simulations of transactions")
    group.addoption(
        "--transaction-histories", type=int, default=20, help="how many beside Kafka's coordinator, each way"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[began_in] = {}
    config.stash[terminal] = os.dup(sys.stderr.fileno())
    path = os.environ.get(RERUNS)
    config.stash[stacks] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if path else config.stash[terminal]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is not None:
        first, count = marker.args
        metafunc.parametrize("seed", range(first, first + count * metafunc.config.getoption("--more-seeds")))
    if "interpreter" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--interpreter") or [Path(sys.executable)]
        metafunc.parametrize("interpreter", chosen, scope="module", ids=[str(path) for path in chosen])


def missing_for_java() -> str | None:
    """The things that the comparison with Apache Kafka lacks here, in one line."""
    absent = [program for program in JDK if shutil.which(program) is None]
    if absent:
        return f"needs a JDK: {' and '.join(absent)} not found"
    fetched = jars.BUILD / f"kafka-{jars.KAFKA_VERSION}" / ".complete"
    if shutil.which("mvn") is None and not fetched.exists():
        return "needs Maven, which fetches Apache Kafka's jars: mvn not found"
    return None


def missing_for_spark() -> str | None:
    """The things that Spark lacks here, in one line."""
    if shutil.which("java") is None:
        return "needs Java: java not found"
    return None if importlib.util.find_spec("pyspark") else "needs PySpark, which the test extra installs"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons = {"java": missing_for_java(), "spark": missing_for_spark()}
    for item in items:
        for name, reason in reasons.items():
            if reason and item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


# Thousands of collected tests are never garbage: each full collection would walk through all of them.
def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def time_limit_s(item: pytest.Item) -> float:
    """How long a test may take without its fixtures; 0: there is no limit."""
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0] if marker else item.config.getini("timeout"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give this run of a test its time; each rerun of it has as much."""
    if limit_s := time_limit_s(item):
        faulthandler.dump_traceback_later(limit_s + FIXTURES_S, exit=True, file=item.config.stash[stacks])


def holding() -> list[threading.Thread]:
    """The threads that hold this process until they end."""
    return [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    known = item.config.stash[began_in]
    item.config.stash[began_in] = {each: known.get(each, item.nodeid) for each in holding()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [f"RERUN {report.nodeid}: {why(report)}" for report in terminalreporter.stats.get("rerun", [])]
    for line in lines:
        terminalreporter.write_line(line)
    failed = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
    remember_for_the_summary([*lines, *(f"FAILED {report.nodeid}: {why(report)}" for report in failed)])


def remember_for_the_summary(lines: list[str]) -> None:
    """Add lines to what `make test` prints last, about every process of the run."""
    path = os.environ.get(RERUNS)
    if path and lines:
        with Path(path).open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def why(report: pytest.TestReport) -> str:
    """The reason why a test was run again, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else report.longreprtext).splitlines()
    return lines[0] if lines else "it failed"


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[exit_status] = exitstatus


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    gc.freeze()
    faulthandler.dump_traceback_later(ENDING_S, exit=True, file=config.stash[terminal])
    # Pools of threads end their idle threads when the interpreter ends, which libraries rely on for theirs.
    pools = threading.Thread(target=concurrent.futures.thread._python_exit, daemon=True)
    pools.start()
    pools.join(ENDING_S / 4)
    left = holding()
    for each in left:
        each.join(ENDING_S / 4 / len(left))
    if alive := [each for each in left if each.is_alive()]:
        known = config.stash[began_in]
        names = ", ".join(f"{each.name} (since {known.get(each, 'the end')})" for each in alive)
        faulthandler.dump_traceback(file=config.stash[terminal])
        line = f"LEFT threads, which would hold this process: {names}"
        print(line, file=sys.stderr, flush=True)
        remember_for_the_summary([line])
        sys.stdout.flush()
        os._exit(config.stash.get(exit_status, pytest.ExitCode.INTERNAL_ERROR))
