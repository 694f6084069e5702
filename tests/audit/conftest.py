"""The logs of the tests of storage, and the fillings of the tests of moving, are used here too."""

import sys
from pathlib import Path

for directory in ("storage", "moving"):
    sys.path.append(str(Path(__file__).resolve().parent.parent / directory))
