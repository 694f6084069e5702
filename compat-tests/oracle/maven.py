"""Jars by Maven: what a pom names, copied once into a directory that remembers which pom it was filled from."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from oracle.quick import QUICK

OPTIONS: Final = {"MAVEN_OPTS": " ".join(QUICK)}


def copied(pom: Path, home: Path, *options: str) -> Path:
    """``home/libs``, which holds the jars that the pom wants; Maven fills it at the first call.

    ``options`` are Maven's, such as ``-Dkafka.version=4.3.1``; other options need another ``home``. Raises RuntimeError
    with what Maven wrote.
    """
    wanted = pom.read_text()
    if not _has(home, wanted):
        home.mkdir(parents=True, exist_ok=True)
        with open(home / ".fetching", "w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            if not _has(home, wanted):
                _fetch(pom, home, options)
                (home / ".complete").write_text(wanted)
    return home / "libs"


def _has(home: Path, wanted: str) -> bool:
    """Whether all that the pom wants was fetched."""
    done = home / ".complete"
    return done.exists() and done.read_text() == wanted


def _fetch(pom: Path, home: Path, options: Sequence[str]) -> None:
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={home / 'libs'}", *options]
    print(f"Maven fetches the jars of {pom.name} into {home / 'libs'}, once", file=sys.stderr, flush=True)
    try:
        finished = subprocess.run(command, env=os.environ | OPTIONS, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise RuntimeError(f"Maven, which fetches jars, does not run: {problem}") from None
    if finished.returncode != 0:
        raise RuntimeError(f"Maven could not fetch what {pom.name} wants:\n{finished.stdout}{finished.stderr}")
