"""``python -m tests.sim``: run seeds, or one with everything that happened."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [
    str(ROOT / part)
    for part in ("", "wire", "storage", "compat-tests", "tests/raft", "tests/zookeeper", "tests/remote_log")
]

from . import planting, processor  # noqa: E402

processor.install()
planting.plant_what_is_asked_for()

from .program import main  # noqa: E402

main()
