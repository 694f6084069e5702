"""Compiles wheels for other platforms and versions of CPython: ``python -m release.cross manylinux-aarch64``.

A release's wheels are those of cibuildwheel. These show that the sources compile and run elsewhere.
"""

import argparse
import sys
from pathlib import Path

from release.cross.fetching import CannotBeHad
from release.cross.targets import TARGETS, VERSION, VERSIONS
from release.cross.wheel import build


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release.cross", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"one or several of {', '.join(TARGETS)}; all")
    parser.add_argument("--python", default=VERSION, choices=VERSIONS, help="the version of CPython; %(default)s")
    parser.add_argument("--level", default="3", choices="0123", help="how much the C compiler optimises")
    parser.add_argument("--outdir", type=Path, default=Path("dist"), metavar="DIRECTORY")
    asked = parser.parse_args()
    unknown = set(asked.targets) - set(TARGETS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))} is unknown; known are {', '.join(TARGETS)}")
    try:
        for wheel in build(
            [TARGETS[name] for name in asked.targets or TARGETS], asked.python, asked.outdir, asked.level
        ):
            print(wheel)
    except CannotBeHad as reason:
        sys.exit(f"CPython {asked.python}: no wheels can be built: {reason}")


if __name__ == "__main__":
    main()
