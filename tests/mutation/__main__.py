"""``python -m tests.mutation``: the share of mutants that the quick tests of each pure package find.

The sample of a package follows from the seed and its name, so that a score can be repeated.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("", "wire", "storage", "compat-tests", "benchmarks")]

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

from .mutants import mutants_of  # noqa: E402
from .packages import PACKAGES, Package  # noqa: E402
from .trial import FOUND, NOT_RUN, Trial  # noqa: E402

PROFILE = "mutation"


def main() -> None:
    options = _options()
    settings.register_profile(
        PROFILE, deadline=None, derandomize=True, max_examples=50, phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    os.environ["HYPOTHESIS_PROFILE"] = PROFILE
    names = options.only.split(",") if options.only else list(PACKAGES)
    for name in names:
        # each package in a process of its own: what one imports is not there for the next
        child = os.fork()
        if child == 0:
            _play(name, PACKAGES[name], options)
            sys.stdout.flush()
            os._exit(0)
        os.waitpid(child, 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants OPTIONS=...", description=__doc__)
    parser.add_argument("--only", help="packages, with commas; all otherwise", default="")
    parser.add_argument("--sample", type=int, default=25, help="mutants of each package; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", help="only these mutants: FILE:LINE, with commas", default="")
    parser.add_argument("--score", type=Path, default=ROOT / "build" / "mutants.txt", help="the file for scores")
    return parser.parse_args()


def _play(name: str, package: Package, options: argparse.Namespace) -> None:
    begun = time.monotonic()
    mutants = [each for path in package.files() for each in mutants_of(path)]
    total = len(mutants)
    if options.lines:
        wanted = tuple(options.lines.split(","))
        mutants = [each for each in mutants if f"{each.path}:{each.line}".endswith(wanted)]
    elif options.sample and options.sample < total:
        mutants = random.Random(f"{options.seed} {name}").sample(mutants, options.sample)
    log = Path(tempfile.gettempdir()) / f"kpybroker-mutants-{os.getpid()}.log"
    trial = Trial(package, sorted(mutants, key=lambda each: (each.path, each.index)), log)
    trial.run()
    if not trial.passes:
        _report(options.score, f"{name}: no score, its tests do not pass as they are:\n{log.read_text()[-3000:]}")
        return
    outcomes = trial.outcomes
    log.unlink(missing_ok=True)
    found = sum(each.fate == FOUND for each in outcomes)
    survived = sum(each.fate not in (FOUND, NOT_RUN) for each in outcomes)
    score = 100 * found / len(outcomes) if outcomes else 100.0
    _report(
        options.score,
        f"{name}: {found} of {len(outcomes)} found, {score:.0f} % (of {total} mutants, seed {options.seed}, "
        f"{survived} survived; tests {trial.cpu_s:.1f} s of CPU time; "
        f"{time.monotonic() - begun:.0f} s)",
    )


def _report(score: Path, line: str) -> None:
    print(line, flush=True)
    score.parent.mkdir(parents=True, exist_ok=True)
    with score.open("a") as file:
        file.write(line.partition("\n")[0] + "\n")


main()
