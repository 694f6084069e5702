"""Runs foreign suites against a broker and holds what passes against the committed lists.

``python -m foreign [SUITE …]`` starts kpybroker, ``--target apache-kafka`` the oracle. It exits with 1 when a test of
a list did not pass, or when a suite that was named cannot run here.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from foreign import outcomes
from foreign.outcomes import Outcomes
from foreign.packages import BUILD, Unavailable
from foreign.secured_broker import secured_broker
from foreign.suite import Suite
from foreign.suites import SUITES
from support.clusters import PROGRAMS, Cluster
from support.targets import TARGETS


@contextmanager
def serving(suite: Suite, target: str, directory: Path) -> Iterator[str]:
    """The address of as many brokers as the suite expects; they end with it."""
    if suite.secured:
        with secured_broker(target, suite.broker, directory) as (server, names), patch.dict(os.environ, names):
            yield server
    elif suite.nodes == 1:
        with TARGETS[target](dict(suite.broker), directory=directory) as broker:
            yield broker.bootstrap_servers
    elif target in PROGRAMS:
        with Cluster(PROGRAMS[target], directory, suite.nodes, suite.broker) as cluster:
            yield cluster.bootstrap_servers
    else:
        raise Unavailable(f"no cluster is started of the target {target}")


def play(suite: Suite, target: str, only: list[str] | None) -> Outcomes:
    """Run the suite on a new broker; what should have passed and did not is tried once more, alone."""
    directory = BUILD / "runs" / f"{suite.name}-{target}-{int(time.time())}"
    directory.mkdir(parents=True)
    with serving(suite, target, directory / "broker") as bootstrap_servers:
        found = suite.run(bootstrap_servers, directory, only)
        again = outcomes.missing(only or outcomes.expected(suite.name), found.by_test)
        if again:
            print(
                f"{suite.name}: a second try of {len(again)} tests, as they did not pass: {' '.join(again)}", flush=True
            )
            second = directory / "second-try"
            second.mkdir()
            found.update(suite.run(bootstrap_servers, second, again))
    print(f"{suite.name}: logs are in {directory}")
    return found


def report(suite: Suite, target: str, found: Outcomes, seconds: float) -> None:
    passed, failed, skipped = (found.those(outcome) for outcome in ("passed", "failed", "skipped"))
    counts = f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped"
    print(f"{suite.name} on {target}: {counts} in {seconds:.0f} s")
    listed = set(outcomes.expected(suite.name))
    for test in (*failed, *skipped):
        mark = "ON THE LIST, " if test in listed else ""
        print(f"  {mark}{found.by_test[test]}: {test}: {found.reasons.get(test, '')}")


def judge(suite: Suite, target: str, found: Outcomes, *, may_record: bool) -> bool:
    """Whether all tests of the list passed; says which ones the list lacks, or adds them."""
    new = sorted(set(found.those("passed")) - set(outcomes.expected(suite.name)))
    if may_record and target == "kpybroker":
        outcomes.record(suite.name, new)
        print(f"{suite.name}: {len(new)} tests added to the list")
    elif new:
        where = "pass and are not on the list yet" if target == "kpybroker" else "pass here and are not on the list"
        print(f"{suite.name}: {len(new)} tests {where}: {' '.join(new)}")
    lost = outcomes.missing(outcomes.expected(suite.name), found.by_test)
    for test in lost:
        print(f"{suite.name}: on the list and not passed: {test}")
    return not lost


def main() -> int:
    parser = argparse.ArgumentParser(prog="foreign", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    parser.add_argument("--target", choices=sorted(TARGETS), default="kpybroker")
    parser.add_argument("--record", action="store_true", help="add what passes on kpybroker to its list")
    parser.add_argument("--only", nargs="+", metavar="TEST", help="run these tests of one suite")
    options = parser.parse_args()
    if options.only and len(options.suites) != 1:
        parser.error("--only names tests of one suite")
    unknown = sorted(set(options.suites) - set(SUITES))
    if unknown:
        parser.error(f"no such suite: {' '.join(unknown)}; there are {' '.join(SUITES)}")
    good = [_one(SUITES[name], options) for name in options.suites or SUITES]
    return 0 if all(good) else 1


def _one(suite: Suite, options: argparse.Namespace) -> bool:
    try:
        suite.prepare()
        began = time.monotonic()
        found = play(suite, options.target, options.only)
    except Unavailable as reason:
        print(f"{suite.name}: cannot run here: {reason}")
        return suite.name not in options.suites
    except subprocess.TimeoutExpired as over:
        print(f"{suite.name}: ended after {over.timeout:.0f} s, before all of its tests were over")
        return False
    report(suite, options.target, found, time.monotonic() - began)
    if options.only:
        return not outcomes.missing(options.only, found.by_test)
    return judge(suite, options.target, found, may_record=options.record)


if __name__ == "__main__":
    sys.exit(main())
