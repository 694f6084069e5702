"""The fixtures that these tests share with those of storage and of the broker."""

import sys
from pathlib import Path

for directory in ("storage", "broker"):
    sys.path.append(str(Path(__file__).resolve().parent.parent / directory))
